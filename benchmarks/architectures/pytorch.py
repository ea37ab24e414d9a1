"""One of today's architectures in PyTorch 2, learning a task made offline; it ends with 1 if it learns nothing."""

from __future__ import annotations

import os
import shutil

import networks
import tasks
import torch
from arguments import give_up, parse, refuse, training_parser
from dataset import DataError, batches
from products import multiply_by_onednn
from recorder import Recorder, Workload
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

SWITCHES = {"compiler": ("none", "inductor"), "precision": ("fp32", "tf32", "bf16"), "matmul": ("default", "onednn")}
LEARNT = 0.95  # of the loss of a guess, which a few tested samples can undercut by chance
MODELS = ("encoder", "decoder", "lora", "vit", "graph", "rows")


def parse_arguments():
    """Reads the command line."""
    parser = training_parser("Trains one of today's architectures.", SWITCHES, 3, 32, 1e-3)
    parser.add_argument("--model", choices=MODELS, default="decoder", help="default: %(default)s")
    parser.add_argument("--size", choices=("small", "base"), default="small", help="default: %(default)s")
    parser.add_argument("--texts", metavar="DIR", help="text files to learn (default: the licences that Debian has)")
    arguments = parse(parser, needs_data=False)
    arguments.images = arguments.images or {"graph": 4096, "rows": 16384, "vit": 2048}.get(arguments.model, 2048)
    return arguments


def prepared(arguments):
    """The task, and the network that is to learn it."""
    model, seed, count = arguments.model, arguments.seed, arguments.images
    size = networks.SIZES.get(model, {}).get(arguments.size)
    if model == "encoder":
        task = tasks.disorder(size[3], count, seed, arguments.texts)
        return task, networks.Transformer(size, task.classes, outputs=4, causal=False)
    if model in ("decoder", "lora"):
        task = tasks.next_characters(size[3], count, seed, arguments.texts)
        return task, networks.Transformer(size, task.classes, task.classes, causal=True)
    if model == "vit":
        task = tasks.shapes(size[3], count, seed)
        return task, networks.VisionTransformer(size, networks.PATCH[arguments.size], task.classes)
    wide = arguments.size == "base"
    if model == "graph":
        task, features, links = tasks.communities(2 * count, 64, seed)
        graph = networks.GraphNetwork(
            torch.from_numpy(features), torch.from_numpy(links), 256 if wide else 32, task.classes
        )
        return task, graph
    task = tasks.table(32, count, seed)
    return task, networks.Rows(32, 512 if wide else 128, 4 if wide else 2, task.classes)


def loss_of(scores, labels, reduction="mean"):
    """Cross-entropy of the scores (..., classes) of one batch."""
    return functional.cross_entropy(scores.float().flatten(0, -2), labels.flatten(), reduction=reduction)


def on(device, *arrays):
    """Tensors there, where they stay."""
    return [torch.from_numpy(array).to(device) for array in arrays]


def work(model, samples, labels):
    """GFLOP of a training step for each sample of these, as PyTorch counts them; a graph is computed as a whole."""
    model.train()
    with FlopCounterMode(display=False) as counter:
        loss_of(model(samples), labels).backward()
    model.zero_grad()
    return counter.get_total_flops() / len(samples) / 1e9


def configure(arguments, device):
    """Sets what holds for the whole process; refuses what makes no sense here."""
    given, is_gpu = arguments.switches, device.type == "cuda"
    if given["precision"] == "tf32" and not is_gpu:
        refuse("precision", "tf32", "an NVIDIA GPU computes so, and there is none")
    if given["matmul"] == "onednn" and is_gpu:
        refuse("matmul", "onednn", "it is for processors")
    if given["compiler"] == "inductor" and not is_gpu and not shutil.which(os.environ.get("CXX", "g++")):
        refuse("compiler", "inductor", "it needs a C++ compiler, and there is none here")
    if given["precision"] == "bf16" and arguments.model == "graph":
        refuse("precision", "bf16", "sparse matrices are multiplied in fp32")
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    if is_gpu:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = given["precision"] == "tf32"
    if given["matmul"] == "onednn":
        multiply_by_onednn()


def pretrain(arguments, device, model, task):
    """Half an epoch as a decoder, so that there is something to adapt; it counts as loading."""
    optimizer = torch.optim.AdamW(model.parameters(), arguments.learning_rate)
    samples, labels = on(device, task.samples, task.labels)
    for numbers in batches(len(samples) // 2, arguments.batch_size, arguments.seed, 99):
        optimizer.zero_grad()
        loss_of(model(samples[numbers]), labels[numbers]).backward()
        optimizer.step()
    return networks.adapt(model).to(device)


def main():
    """Trains and measures, as the command line asks."""
    arguments = parse_arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    is_gpu = device.type == "cuda"
    configure(arguments, device)
    workload = Workload("architectures", "%s (%s)" % (arguments.model, arguments.size), None)
    versions, synchronise = [("torch", str(torch.__version__))], torch.cuda.synchronize if is_gpu else None
    recorder = Recorder(workload, arguments, "PyTorch", versions, synchronise, is_gpu)
    with recorder.timed("load_data"):
        try:
            task, model = prepared(arguments)
        except DataError as error:
            give_up(2, str(error))
        model.to(device)
        if arguments.model == "lora":
            model = pretrain(arguments, device, model, task)
        samples, labels, test_samples, test_labels = on(device, *task[:4])
    few = min(arguments.batch_size, len(samples))
    recorder.metrics["network"] = {
        "name": "%s-%s" % (arguments.model, arguments.size),
        "gflop_per_image": work(model, samples[:few], labels[:few]),
        "bytes_per_image": samples[0].nbytes,
        "layers": sum(isinstance(module, (torch.nn.Linear, torch.nn.Conv2d)) for module in model.modules()),
    }
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, arguments.learning_rate)
    computed = torch.compile(model) if arguments.switches["compiler"] == "inductor" else model

    def scores(x):
        with torch.autocast(device.type, torch.bfloat16, enabled=arguments.switches["precision"] == "bf16"):
            return computed(x)

    trained, tested = len(samples), len(test_samples)
    untaught, _ = evaluate(model, model, test_samples, test_labels)
    recorder.training_begins(task.description, trained, tested, sum(parameter.numel() for parameter in learning))
    for epoch in range(arguments.epochs):
        recorder.epoch_begins()
        model.train()
        for numbers in map(torch.from_numpy, batches(trained, arguments.batch_size, arguments.seed, epoch)):
            optimizer.zero_grad()
            loss = loss_of(scores(samples[numbers]), labels[numbers])
            loss.backward()
            optimizer.step()
            recorder.step_ends(loss.detach(), len(numbers))
        recorder.evaluation_begins()
        test_loss, right = evaluate(model, scores, test_samples, test_labels)
        recorder.epoch_ends(test_loss, right)
    if arguments.epochs > 1 and not test_loss < min(LEARNT * task.ignorant_loss, untaught):
        known = "%.3f is a guess, and %.3f was that of the first weights" % (task.ignorant_loss, untaught)
        give_up(1, "it has learnt nothing: the test loss is %.3f, %s" % (test_loss, known))


def evaluate(model, scores, samples, labels):
    """The mean loss, and the share of right answers."""
    model.eval()
    losses, right = [], []
    with torch.no_grad():
        for start in range(0, len(samples), 64):
            found, wanted = scores(samples[start : start + 64]), labels[start : start + 64]
            losses.append(float(loss_of(found, wanted, "sum")))
            right.append(int((found.argmax(-1) == wanted).sum()))
    return sum(losses) / labels.numel(), sum(right) / labels.numel()


if __name__ == "__main__":
    main()
