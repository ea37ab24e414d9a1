"""What acts in a script that trains with the Trainer of Hugging Face's transformers, without a line in it."""

import functools
import math
import os
import shutil
import sys

from modak_runtime.trainers.common import Ending, Numbers, guarded, prepare

_KEPT = 2
_LAST = "transformers"  # in the folder of checkpoints: where the Trainer has written its last one


def imported(module, report, steps):
    """Acts as soon as the module with the Trainer is imported."""
    library = sys.modules["transformers"]
    report.framework("transformers", getattr(library, "__version__", ""), 0.0)
    trainer = module.Trainer
    train, loop = trainer.train, trainer._inner_training_loop
    callback = _callback(module.TrainerCallback)

    @functools.wraps(train)
    def followed_train(self, *arguments, **options):
        options = guarded(report, "transformers", _begins, self, report, steps, callback, arguments, options) or options
        return train(self, *arguments, **options)

    @functools.wraps(loop)
    def prepared_loop(self, *arguments, **options):
        guarded(report, "transformers", _prepare, self, report)
        return loop(self, *arguments, **options)

    trainer.train, trainer._inner_training_loop = followed_train, prepared_loop


def _begins(trainer, report, steps, callback, arguments, options):
    """Adds the callback, once, and goes on from the last checkpoint of a training that was stopped."""
    own_callback = getattr(trainer, "_modak_callback", None)
    if own_callback is None:
        own_callback = trainer._modak_callback = callback(report, steps)
        trainer.add_callback(own_callback)
    own_callback.ending.begins()
    _resize(trainer, report)
    if own_callback.ending.folder:
        trainer.args.save_only_model = False  # without the optimiser's state nothing goes on where it was
    if arguments or options.get("resume_from_checkpoint") is not None or not own_callback.ending.folder:
        return options
    last = _last(own_callback.ending.folder)
    if last:
        sys.stdout.write("modak: the training continues from %s\n" % last)
        sys.stdout.flush()
        return dict(options, resume_from_checkpoint=last)
    return options


def _resize(trainer, report):
    """Sets the planned batch where the Trainer has its own; once."""
    arguments, planned = trainer.args, report.planned
    if getattr(trainer, "_modak_resized", False):
        return
    trainer._modak_resized = True
    if "batch_size" in planned:
        arguments.per_device_train_batch_size = int(planned["batch_size"])
        trainer._train_batch_size = arguments.train_batch_size
        report.applied("batch_size", "trainer")
    if "accumulation" in planned:
        arguments.gradient_accumulation_steps *= int(planned["accumulation"])
        report.applied("accumulation", "trainer")


def _prepare(trainer, report):
    if getattr(trainer, "_modak_prepared", None) is trainer.model or report.prepared:
        return
    trainer._modak_prepared, report.trainer = trainer.model, "transformers"
    own_settings = ["batch_size", "accumulation"]
    if trainer.args.bf16 or trainer.args.fp16:
        report.refused("precision", "the script's own TrainingArguments choose the number format", "trainer")
        own_settings.append("precision")
    if getattr(trainer.args, "torch_compile", False):
        report.refused("compiler", "the script's own TrainingArguments choose the compiler", "trainer")
        own_settings.append("compiler")
    prepare(report, (trainer.model,), own_settings)
    original = trainer.get_train_dataloader

    def get_train_dataloader():
        loader = original()
        inner = getattr(loader, "base_dataloader", loader)  # accelerate puts its own around it
        guarded(report, "transformers", prepare, report, (inner,), own_settings)
        return loader

    trainer.get_train_dataloader = get_train_dataloader


def _callback(base):
    class Follow(base):
        """Tells how far a training is, keeps its numbers, and has the Trainer save where the job asks for it."""

        def __init__(self, report, steps):
            self.ending, self._numbers = Ending(), Numbers(report, "transformers")
            self._progress = steps.progress
            self._is_ours, self._ours = False, []  # whether the script asked for this checkpoint; those it did not

        def on_step_end(self, args, state, control, **_options):
            progress = self._progress
            progress.epoch = max(1, math.ceil((state.epoch or 0) - 1e-6))
            progress.epochs = None if args.max_steps > 0 else int(state.num_train_epochs)
            self._is_ours = not control.should_save and (self.ending.is_due() or self.ending.is_asked())
            if self._is_ours:
                control.should_save = True
            return control

        def on_log(self, args, state, control, logs=None, **_options):
            self._numbers.take(logs, state.global_step, state.epoch)
            if "loss" in (logs or {}):
                self._progress.loss = self._numbers.get("loss")
            self._numbers.write()

        def on_evaluate(self, args, state, control, metrics=None, **_options):
            self._numbers.take(metrics)
            self._numbers.write()

        def on_save(self, args, state, control, **_options):
            if not self.ending.folder:
                return
            folder = os.path.join(args.output_dir, "checkpoint-%d" % state.global_step)
            if os.path.isdir(folder):
                _note(self.ending.folder, os.path.abspath(folder))
                self._keep_two(folder, state.best_model_checkpoint)
            self.ending.saved()
            if self.ending.is_asked() and state.global_step < state.max_steps:
                self.ending.leave()

        def _keep_two(self, folder, best):
            """Removes the checkpoints that nobody but the job asked for, but for the newest two and the best."""
            self._ours = [checkpoint for checkpoint in self._ours if checkpoint != folder] + [folder] * self._is_ours
            self._is_ours = False
            for old in [checkpoint for checkpoint in self._ours[:-_KEPT] if checkpoint != best]:
                shutil.rmtree(old, ignore_errors=True)
            self._ours = self._ours[-_KEPT:]

        def on_train_end(self, args, state, control, **_options):
            self._numbers.write()

    return Follow


def _note(folder, path):
    os.makedirs(folder, exist_ok=True)
    part = os.path.join(folder, ".%s.part" % _LAST)
    with open(part, "w") as file:
        file.write(path)
    os.replace(part, os.path.join(folder, _LAST))


def _last(folder):
    """The newest checkpoint of the Trainer's; empty where there is none any more."""
    try:
        with open(os.path.join(folder, _LAST)) as file:
            path = file.read()
    except OSError:
        return ""
    return path if os.path.isfile(os.path.join(path, "trainer_state.json")) else ""
