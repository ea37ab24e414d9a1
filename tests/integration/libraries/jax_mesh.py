"""Two processes of JAX learn what one learns; the numbers are those of numpy in the test."""

import json
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.distributed.initialize()
mesh = Mesh(np.array(jax.devices()), ("data",))
split, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
samples = np.random.default_rng(0).random((512, 8), np.float32)
weights = jax.device_put(jnp.ones((8, 1)), whole)


@jax.jit
def step(weights, batch):
    def loss(weights):
        return jnp.mean((batch @ weights - 2 * batch.sum(1, keepdims=True)) ** 2)

    return weights - 0.05 * jax.grad(loss)(weights)


for batch in samples.reshape(8, 64, 8):
    own = batch.reshape(jax.process_count(), -1, 8)[jax.process_index()]
    weights = step(weights, jax.make_array_from_process_local_data(split, own, batch.shape))
with open(os.environ["MODAK_METRICS"], "w") as file:
    found = {"weights": np.asarray(weights.addressable_data(0)).ravel().tolist(), "processes": jax.process_count()}
    json.dump({**found, "node": os.environ["SLURMD_NODENAME"]}, file)
