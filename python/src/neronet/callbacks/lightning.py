"""``Trainer(logger=NeronetLogger())`` of PyTorch Lightning."""

from typing import Any, Dict, Optional, Union

try:
    from lightning.pytorch.loggers.logger import Logger
    from lightning.pytorch.utilities import rank_zero_only
except ImportError:
    from pytorch_lightning.loggers.logger import Logger
    from pytorch_lightning.utilities import rank_zero_only

from .. import log, run


class NeronetLogger(Logger):
    """Reports what ``self.log`` logs, with Lightning's global step."""

    @property
    def name(self) -> Optional[str]:
        """The name of the experiment."""
        return run.name

    @property
    def version(self) -> Optional[Union[int, str]]:
        """The run, such as ``144.2``."""
        return run.id

    @property
    def save_dir(self) -> str:
        """The working folder."""
        return run.folder

    @rank_zero_only
    def log_metrics(self, metrics: Dict[str, float], step: Optional[int] = None) -> None:
        """Reports metrics at a step."""
        log(metrics, step=step)

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Does nothing: the experiment has its parameters already."""
