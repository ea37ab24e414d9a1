"""A group of a suite, as tests of suites write it."""

GROUP = """\
  - name: pytorch
    title: Two settings
    workload: mnist_cnn
    matrix:
      - entries: [ pytorch-2.13-cpu ]
        settings: [ {}, { memory_format: channels_last } ]
"""
