"""``Trainer(…, callbacks=[NeronetCallback()])`` of Hugging Face Transformers."""

from typing import Any, Dict, Optional

from transformers import TrainerCallback

from .. import log


class NeronetCallback(TrainerCallback):
    """Reports what the trainer logs, with its global step."""

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None,
        **kwargs: Any
    ) -> None:
        """Reports the numbers of the trainer's logs; texts are left out."""
        if not state.is_world_process_zero:
            return
        numbers = {name: value for name, value in (logs or {}).items()
                   if isinstance(value, (int, float)) and not isinstance(value, bool)}
        log(numbers, step=state.global_step)
