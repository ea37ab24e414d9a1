"""What fit is given to learn from: a pipeline of tf.data is kept in memory where that changes no sample."""

import functools
import sys

from modak_runtime.free_memory import free_memory
from modak_runtime.steps import length_of

_SHARE = 0.4  # of the memory that is free
# How the names begin of those that give the same elements in every epoch, if what they are made of does.
_STEADY = (
    "BatchDataset", "ParallelBatchDataset", "PrefetchDataset", "TensorSliceDataset", "TensorDataset", "RangeDataset",
    "Map", "ParallelMap", "ZipDataset", "TakeDataset", "SkipDataset", "OptionsDataset",
    "ConcatenateDataset", "CacheDataset", "FilterDataset", "FixedLengthRecordDataset", "TFRecordDataset",
    "TextLineDataset",
)  # fmt: skip


def size_of(data, batch_size):
    """Samples of an epoch and of a step, where the data say so."""
    samples = length_of(data) if hasattr(data, "shape") else None
    return samples, batch_size or (32 if samples is not None else None)  # 32 is Keras's own


def kept(tensorflow, report, data):
    """The data as they are planned: in memory."""
    if hasattr(data, "shape"):
        report.applied("input", "keras", "the arrays are in memory already")
        return data
    if tensorflow is None or not isinstance(data, tensorflow.data.Dataset):
        report.refused("input", "fit is given %s, whose samples may differ each time" % type(data).__name__, "keras")
        return data
    problem = _unsteady(data) or _too_much(tensorflow, data)
    if problem:
        report.refused("input", problem, "keras")
        return data
    report.applied("input", "keras")
    return data.cache().prefetch(tensorflow.data.AUTOTUNE)


def leave_untuned(backend, report):
    """Lets Keras cut its batches of arrays without the tuning of tf.data; pipelines of the script's own stay."""
    module = sys.modules.get("keras.src.trainers.data_adapters.array_data_adapter")
    adapter = getattr(module, "ArrayDataAdapter", None)
    tensorflow = sys.modules.get("tensorflow")
    if backend != "tensorflow" or tensorflow is None or not hasattr(adapter, "get_tf_dataset"):
        report.refused("pipeline_tuning", "this release of Keras makes its batches differently", "keras")
        return
    original = adapter.get_tf_dataset
    report.stands("pipeline_tuning", "stock", "keras: no data was given as arrays")

    @functools.wraps(original)
    def get_tf_dataset(self):
        options = tensorflow.data.Options()
        options.autotune.enabled = False
        dataset = original(self).with_options(options)
        report.applied("pipeline_tuning", "keras")
        return dataset

    adapter.get_tf_dataset = get_tf_dataset


def _unsteady(data):
    """Why a pipeline may give other samples in another epoch; empty where it cannot."""
    name = type(data).__name__.lstrip("_")
    if not name.startswith(_STEADY):
        return "the pipeline has a %s, which may give different samples in each epoch" % name
    function = getattr(getattr(data, "_map_func", None), "function", None) or getattr(
        getattr(data, "_predicate", None), "function", None
    )
    graph = getattr(function, "graph", None)
    drawing = (
        [operation.type for operation in graph.get_operations() if operation.op_def and operation.op_def.is_stateful]
        if graph
        else []
    )
    if drawing:
        return "the pipeline's functions use %s, which may give a different value each time" % drawing[0]
    return next((problem for problem in map(_unsteady, data._inputs()) if problem), "")


def _too_much(tensorflow, data):
    batches = int(data.cardinality())
    if batches < 0:
        return "the number of samples in the pipeline is unknown"
    first = next(iter(data.take(1)), None)
    if first is None:
        return "the pipeline is empty"
    needed = batches * sum(tensor.dtype.size * tensor.shape.num_elements() for tensor in tensorflow.nest.flatten(first))
    free = free_memory()
    if free is None or needed > _SHARE * free:
        return "the samples need %d MB, more than %d %% of the free memory" % (needed // 10**6, round(100 * _SHARE))
    return ""
