"""What acts in a script that trains with Lightning's Trainer, without a line in it."""

import functools
import inspect
import os
import sys
import time

from modak_runtime.report import warn
from modak_runtime.trainers.common import Ending, Numbers, guarded, prepare

_PAUSE = 5.0  # seconds between two looks at the loss, which may have an accelerator wait
_HALF = {"bf16": "bf16-mixed"}


def imported(module, report, steps):
    """Acts as soon as the module with the Trainer is imported: ``lightning.pytorch`` or ``pytorch_lightning``."""
    library = module.__name__.rpartition(".trainer.trainer")[0]
    package = sys.modules[library.partition(".")[0]]
    report.framework("lightning", getattr(package, "__version__", ""), 0.0)
    trainer, base = module.Trainer, sys.modules[library + ".callbacks.callback"].Callback
    begin, fit, follow = trainer.__init__, trainer.fit, _callback(base)

    @functools.wraps(begin)
    def __init__(self, *arguments, **options):
        options = guarded(report, "lightning", _precision, report, arguments, options) or options
        begin(self, *arguments, **options)
        guarded(report, "lightning", self.callbacks.append, follow(report, steps))

    @functools.wraps(fit)
    def followed_fit(self, model, *arguments, **options):
        options = guarded(report, "lightning", _fit_begins, self, report, model, arguments, options) or options
        return fit(self, model, *arguments, **options)

    trainer.__init__, trainer.fit = __init__, followed_fit


def _precision(report, arguments, options):
    """The Trainer's own options with the planned number format, where the script leaves it open."""
    precision = _HALF.get(report.planned.get("precision", ""))
    if precision is None:
        return options
    if arguments or options.get("precision") is not None or options.get("plugins") or options.get("strategy"):
        report.refused("precision", "the script's own Trainer chooses the number format", "trainer")
        return options
    report.applied("precision", "trainer")
    return dict(options, precision=precision)


def _fit_begins(trainer, report, model, arguments, options):
    callback = next((callback for callback in trainer.callbacks if hasattr(callback, "modak_ending")), None)
    if callback is None:
        return options
    ending = callback.modak_ending
    ending.begins()
    callback.modak_store = None
    if not report.prepared:
        report.trainer = "lightning"
        if trainer.world_size == 1:
            _loaders(report, model, arguments, options)
        else:  # which Lightning makes anew, of the class that they have
            for name in ("input", "workers", "batch_size"):
                report.refused(name, "with several processes, Lightning makes the loaders itself", "trainer")
        if "accumulation" in report.planned:
            trainer.accumulate_grad_batches *= int(report.planned["accumulation"])
            report.applied("accumulation", "trainer")
    if not ending.folder or options.get("ckpt_path") is not None or len(arguments) > _BEFORE_CHECKPOINT:
        return options
    from modak_checkpoint.store import Store

    last = next(iter(Store(ending.folder).newest()), None)
    if last is None:
        return options
    sys.stdout.write("modak: the training continues from %s\n" % last)
    sys.stdout.flush()
    options = dict(options, ckpt_path=last)
    if "weights_only" in inspect.signature(trainer.fit).parameters:  # what was saved here may hold any hyperparameter
        options.setdefault("weights_only", False)
    return options


_BEFORE_CHECKPOINT = 3  # positions of fit behind the model: two kinds of loaders, and the datamodule


def _loaders(report, model, arguments, options):
    """Prepares the loaders that train, given to fit or made by the model or a datamodule."""
    loaders = arguments[0] if arguments else options.get("train_dataloaders")
    module = options.get("datamodule") or (arguments[2] if len(arguments) > 2 else None)
    if hasattr(loaders, "train_dataloader"):
        loaders, module = None, loaders
    if loaders is not None:
        _prepare_loaders(report, loaders)
        return
    source = module if module is not None else model
    original = source.train_dataloader

    @functools.wraps(original)
    def train_dataloader(*arguments, **options):
        loaders = original(*arguments, **options)
        guarded(report, "lightning", _prepare_loaders, report, loaders)
        return loaders

    source.train_dataloader = train_dataloader


def _prepare_loaders(report, nested):
    data = sys.modules["torch"].utils.data
    leaves = nested.values() if isinstance(nested, dict) else nested if isinstance(nested, (list, tuple)) else [nested]
    loaders = tuple(loader for loader in leaves if isinstance(loader, data.DataLoader))
    prepare(report, loaders, ("accumulation", "precision"))


def _prepare_model(report, model):
    """Lets the choices act on the model: on itself where it has a forward, else on the networks that it holds."""
    if report.prepared:
        return
    torch = sys.modules["torch"]
    has_forward = type(model).forward is not torch.nn.Module.forward and not _is_stub(type(model))
    networks = [child for child in model.children() if any(True for _ in child.parameters())]
    prepare(
        report,
        (model,) if has_forward or not networks else tuple(networks),
        ("batch_size", "accumulation", "precision"),
    )


def _is_stub(kind):
    """Whether forward is Lightning's own, which only passes on to torch's."""
    return kind.forward.__module__.endswith(("core.module", "torch.nn.modules.module"))


def _callback(base):
    class Follow(base):
        """Tells how far a training is, keeps its numbers, and saves and ends where the job asks for it."""

        def __init__(self, report, steps):
            self.modak_ending, self._numbers = Ending(), Numbers(report, "lightning")
            self._report, self._progress, self._next = report, steps.progress, 0.0
            self.modak_store = self._streams = None

        def state_dict(self):
            """The streams of random numbers, which Lightning does not keep; where it saves for itself, none."""
            from modak_checkpoint import streams

            return {"streams": streams.states()} if self.modak_store else {}

        def load_state_dict(self, state_dict):
            self._streams = state_dict.get("streams")

        def on_fit_start(self, trainer, pl_module):
            guarded(self._report, "lightning", _prepare_model, self._report, pl_module)
            if self._streams is not None:  # before the loader's iterator is made, which draws from them
                from modak_checkpoint import streams

                streams.restore(self._streams)
                self._streams = None

        def on_train_epoch_start(self, trainer, pl_module):
            progress, most = self._progress, trainer.max_epochs
            progress.epoch, progress.epochs = trainer.current_epoch + 1, most if most and most > 0 else None

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, *_others):
            now = time.monotonic()
            if now >= self._next:
                self._next = now + _PAUSE
                self._progress.take_loss(outputs if isinstance(outputs, dict) else {"loss": outputs})
            if self.modak_ending.is_asked():
                if not self._saved():
                    self._save(trainer)
                self.modak_ending.leave()

        def on_train_epoch_end(self, trainer, pl_module):
            self._take(trainer)
            is_asked = self.modak_ending.is_asked()
            if is_asked or self.modak_ending.is_due():
                self._save(trainer)
            if is_asked:
                self.modak_ending.leave()

        def on_validation_end(self, trainer, pl_module):
            if not trainer.sanity_checking:
                self._take(trainer)

        def on_test_end(self, trainer, pl_module):
            self._take(trainer)

        def on_fit_end(self, trainer, pl_module):
            self._take(trainer)

        def _take(self, trainer):
            self._numbers.take(trainer.callback_metrics, trainer.global_step, trainer.current_epoch)
            self._numbers.write()

        def _saved(self):
            return os.path.isdir(self.modak_ending.folder) and any(
                name.endswith(".checkpoint") for name in os.listdir(self.modak_ending.folder)
            )

        def _save(self, trainer):
            from modak_checkpoint.store import Store

            try:
                self.modak_store = self.modak_store or Store(self.modak_ending.folder)
                self.modak_store.save(trainer.save_checkpoint)
            except (OSError, RuntimeError) as error:
                warn("no checkpoint was written: %s" % error)
            self.modak_ending.saved()

    return Follow
