"""``model.fit(…, callbacks=[NeronetCallback()])`` of Keras."""

from typing import Any, Dict, Optional

try:
    from keras.callbacks import Callback
except ImportError:
    from tensorflow.keras.callbacks import Callback

from .. import log


class NeronetCallback(Callback):  # type: ignore[misc]
    """Reports the logs of each epoch; the first epoch is 1, as Keras prints it."""

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Reports metrics of an epoch."""
        log(logs or {}, step=epoch + 1)
