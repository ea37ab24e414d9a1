"""Measures the operators of the image pytorch-2.13-cpu-ops against PyTorch's own, one by one and in whole steps.

    OMP_NUM_THREADS=1 taskset -c 1 python benchmarks/operators.py [LIBRARY] [--blocks 7] [--only mnist]

Two processes live side by side, one with the library and one without; each works while the other waits, block by
block, the order reversed every time. Times are of the processor (of the thread, so one thread is measured), which
leaves out what others take of a shared machine; wall-clock ratios stand beside them. Errors of convolutions are
norm of the difference over norm, against float64.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time

import torch
from torch.nn import functional

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = "/opt/modak/lib/libmodak_operators.so"
CONVOLUTIONS = {
    # images, channels in and out, height and width, window, stride, padding
    "MNIST-CNN 32 to 64, 26x26": (128, 32, 64, 26, 3, 1, 0),
    "ResNet50 64, 56x56": (8, 64, 64, 56, 3, 1, 1),
    "ResNet50 128, 28x28": (8, 128, 128, 28, 3, 1, 1),
    "ResNet50 256, 14x14": (8, 256, 256, 14, 3, 1, 1),
    "ResNet50 512, 7x7": (8, 512, 512, 7, 3, 1, 1),
    "ResNet50 1x1, 64 to 256, 56x56": (8, 64, 256, 56, 1, 1, 0),
    "ResNet50 1x1, 512 to 128, 28x28": (8, 512, 128, 28, 1, 1, 0),
    "ResNet50 1x1, 256 to 1024, 14x14": (8, 256, 1024, 14, 1, 1, 0),
    "ResNet50 1x1, 2048 to 512, 7x7": (8, 2048, 512, 7, 1, 1, 0),
    "ResNet50 1x1, 1024 to 2048, 14x14 by 2": (8, 1024, 2048, 14, 1, 2, 0),
    "ResNet50 512, 14x14 by 2": (8, 512, 512, 14, 3, 2, 1),
}


def formats():
    return {"first": torch.contiguous_format, "last": torch.channels_last}


def convolutions():
    for name, (images, cin, cout, size, window, stride, padding) in CONVOLUTIONS.items():
        for place, form in formats().items():
            random = torch.Generator().manual_seed(1)
            x = torch.randn(images, cin, size, size, generator=random).relu().contiguous(memory_format=form)
            w = torch.randn(cout, cin, window, window, generator=random).div(window * cin**0.5)
            w = w.contiguous(memory_format=form)
            b = torch.randn(cout, generator=random)
            y = functional.conv2d(x, w, b, stride, padding)
            g = torch.randn(y.shape, generator=random).contiguous(memory_format=form)

            def forward(x=x, w=w, b=b, stride=stride, padding=padding):
                return [functional.conv2d(x, w, b, stride, padding)]

            def backward(mask, g=g, x=x, w=w, stride=stride, padding=padding):
                sides = [w.shape[0]], [stride, stride], [padding, padding], [1, 1], False, [0, 0], 1
                return torch.ops.aten.convolution_backward(g, x, w, *sides, mask)

            exact = [tensor.double() for tensor in (x, w, b, g)]
            label = "convolution %s, channels %s: " % (name, place)
            yield label + "forward", forward, lambda e=exact, f=forward: f(*e[:3])
            for part, mask in (("data", [True, False, False]), ("weights and bias", [False, True, True])):
                yield (
                    label + part,
                    lambda mask=mask, f=backward: f(mask),
                    lambda mask=mask, f=backward, e=exact: f(mask, e[3], e[0], e[1]),
                )


def others():
    for window in ((2,), (3, 2, 1)):
        size = (128, 64, 24, 24) if window == (2,) else (8, 64, 112, 112)
        for place, form in formats().items():
            x = torch.randn(size).contiguous(memory_format=form).requires_grad_()
            y = functional.max_pool2d(x, *window)
            g = torch.rand_like(y)
            label = "max_pool2d %s of %s, channels %s: " % (window, size, place)
            yield label + "forward", lambda x=x, w=window: functional.max_pool2d(x, *w), None
            yield label + "backward", lambda x=x, y=y, g=g: torch.autograd.grad(y, x, g, retain_graph=True), None
    z = torch.rand(128, 9216)
    yield "bernoulli_ of 1.18 million numbers", lambda: z.bernoulli_(0.75), None
    yield "dropout of 1.18 million numbers", lambda: functional.dropout(z, 0.25, training=True), None


def steps():
    for place in ("first", "last"):
        yield "step of MNIST-CNN, batch 128, channels %s" % place, lambda p=place: network("mnist_cnn", p), None
        yield "step of ResNet50, batch 8, channels %s" % place, lambda p=place: network("resnet50", p), None


def network(workload, place):
    """A function that takes one step."""
    folder = os.path.join(HERE, workload)
    sys.path.insert(0, folder)
    for name in ("common", "arguments", "dataset", "machine"):
        sys.modules.pop(name, None)
    spec = importlib.util.spec_from_file_location(workload, os.path.join(folder, "pytorch.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(folder)
    torch.manual_seed(1)
    form = formats()[place]
    if workload == "mnist_cnn":
        model, x, y = module.Network(1.0), torch.rand(128, 1, 28, 28), torch.randint(0, 10, (128,))
    else:
        model, x, y = module.Network(1000), torch.rand(8, 3, 224, 224), torch.randint(0, 1000, (8,))
    model, x = model.to(memory_format=form), x.contiguous(memory_format=form)
    if workload == "mnist_cnn":
        optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95, eps=1e-6)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def cases(only):
    all_cases = [("operator", *case) for case in (*convolutions(), *others())] + [("step", *step) for step in steps()]
    return [case for case in all_cases if only.lower() in case[1].lower()]


def work(library, only):
    """A process that measures what it is told to: a line with a number of a case in, its times out."""
    os.environ["MODAK_OPERATORS"] = "all"  # what the library reads when it is loaded
    torch.set_num_threads(1)
    if library:
        torch.ops.load_library(library)
    found = cases(only)
    functions = {}
    for line in sys.stdin:
        number = int(line)
        kind, name, function, exact = found[number]
        answer = {"name": name}
        if number not in functions:
            functions[number] = function() if kind == "step" else function
            functions[number]()
            if exact:
                pairs = [(a, b) for a, b in zip(function(), exact()) if a is not None]
                answer["error"] = max(float((a.double() - b).norm() / b.norm()) for a, b in pairs)
        answer["times"] = times(functions[number])
        print(json.dumps(answer), flush=True)


def times(function, least=0.1):
    """Seconds of the processor and of the wall, call by call, for at least so long."""
    found = []
    began = time.perf_counter()
    while len(found) < 3 or time.perf_counter() - began < least:
        wall, own = time.perf_counter(), time.thread_time()
        function()
        found.append((time.thread_time() - own, time.perf_counter() - wall))
    return found


def median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def measure(library, blocks, only):
    """Drives both processes, and prints a line for each case."""
    command = [sys.executable, os.path.abspath(__file__), "--only", only, "--work"]
    environment = dict(os.environ, MODAK_OPERATORS="none")  # an image's own loading would spoil the stock side
    workers = {
        side: subprocess.Popen(
            [*command, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True, env=environment
        )
        for side, more in (("stock", []), ("ours", [library]))
    }
    print("| what | stock ms (min) | ours ms (min) | ratio | range | wall | error stock | error ours |")
    print("|---|---|---|---|---|---|---|---|")
    for number in range(len(cases(only))):
        blocks_of, errors, name = {"stock": [], "ours": []}, {}, ""
        for block in range(blocks):
            for side in sorted(workers, reverse=block % 2 == 0):
                workers[side].stdin.write("%d\n" % number)
                workers[side].stdin.flush()
                answer = json.loads(workers[side].stdout.readline())
                name = answer["name"]
                errors.setdefault(side, answer.get("error"))
                blocks_of[side].append(answer["times"])
        print(line(name, blocks_of, errors), flush=True)
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()


def line(name, blocks_of, errors):
    medians = {side: [median(t[0] for t in block) for block in blocks] for side, blocks in blocks_of.items()}
    walls = {side: [median(t[1] for t in block) for block in blocks] for side, blocks in blocks_of.items()}
    ratios = sorted(a / b for a, b in zip(medians["stock"], medians["ours"]))
    wall = median(a / b for a, b in zip(walls["stock"], walls["ours"]))
    cells = [name]
    for side in ("stock", "ours"):
        least = min(t[0] for block in blocks_of[side] for t in block)
        cells.append("%.2f (%.2f)" % (1000 * median(medians[side]), 1000 * least))
    cells += ["%.2f" % median(ratios), "%.2f to %.2f" % (ratios[0], ratios[-1]), "%.2f" % wall]
    cells += ["%.1e" % errors[side] if errors.get(side) else "" for side in ("stock", "ours")]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", nargs="?", default="", help="of the operators; " + LIBRARY)
    parser.add_argument("--blocks", type=int, default=7, help="of each process and case")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.library, options.only)
    else:
        measure(options.library or LIBRARY, options.blocks, options.only)


if __name__ == "__main__":
    main()
