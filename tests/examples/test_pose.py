"""The pose example: its skeleton is one, and both ways of writing it down are the same model."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.spatial.transform import Rotation
from scipy.stats import norm
from support.checks import make_rng
from support.scripts import load


@pytest.fixture(scope="module")
def example():
    """The script as a module."""
    return load("examples/constrained/pose.py")


@pytest.fixture(scope="module")
def positions(example):
    """Joint positions as a function of arrays (19, 3) and (13,)."""
    angles, lengths = pt.matrix("angles", shape=(19, 3)), pt.vector("lengths", shape=(13,))
    return pytensor.function(
        [angles, lengths], example.joint_positions(angles, lengths), mode="FAST_COMPILE"
    )


def test_kinematics_are_those_of_a_walk_down_the_tree(example, positions):
    """Catches a wrong order of rotations, a wrong parent, a bone turned by another's angles."""
    rng = make_rng("kinematics")
    angles, lengths = rng.normal(size=(19, 3)), rng.uniform(0.1, 0.5, 13)
    turned, expected = {}, {}
    for i, (name, (parent, bone, _, _)) in enumerate(example.JOINTS.items()):
        x, y, z = angles[i]
        own = Rotation.from_euler("ZXY", [z, x, y])
        turned[name] = own if parent is None else turned[parent] * own
        offset = np.zeros(3)
        for length, direction in bone.items():
            offset += lengths[list(example.LENGTHS).index(length)] * np.array(direction)
        origin = np.zeros(3) if parent is None else expected[parent]
        expected[name] = origin + turned[name].apply(offset)
    np.testing.assert_allclose(
        positions(angles, lengths), list(expected.values()), rtol=0, atol=1e-12
    )


def test_a_person_without_angles_stands_upright(example, positions):
    """Catches a table with a sign or a side mixed up."""
    standing = positions(np.zeros((19, 3)), np.array(list(example.LENGTHS.values())))
    joint = dict(zip(example.NAMES, standing, strict=True))
    np.testing.assert_allclose(joint["head"], [0.0, 0.22 + 0.26 + 0.11 + 0.17, 0.0], atol=1e-12)
    assert joint["left toe"][2] > 0.1
    for name in example.LEFT:
        left, right = joint[f"left {name}"], joint[f"right {name}"]
        assert left[0] > 0
        np.testing.assert_allclose(right, left * [-1, 1, 1], atol=1e-12)
    assert example.FREE.size == 46


@pytest.mark.slow
def test_generator_and_likelihood_have_the_same_density(example):
    """Catches noise of another width, or a prior that is written down twice in two ways."""
    rng = make_rng("pose density")
    data = example.true_scene()[1]
    models = example.generator(data), example.hierarchical(data)
    point = {name: rng.normal(size=n) for name, n in (("angles", 46), ("lengths", 13))}
    point["camera"] = rng.normal(size=3)
    free = models[1].free_RVs
    [likelihood] = models[1].observed_RVs
    # the parameters of a normal variable are its last two inputs
    mean = pytensor.function(free, likelihood.owner.inputs[-2], mode="FAST_COMPILE")(
        *(point[rv.name] for rv in free)
    )
    noise = (data - mean) / example.NOISE
    inputs = models[0].compile_logp(vars=models[0].free_RVs, mode="FAST_COMPILE")
    exact = inputs({**point, "noise": noise}) - noise.size * np.log(example.NOISE)
    whole = models[1].compile_logp(mode="FAST_COMPILE")(point)
    assert exact == pytest.approx(whole, rel=1e-10)
    prior = sum(norm.logpdf(value).sum() for value in point.values())
    assert whole - prior == pytest.approx(norm.logpdf(data, mean, example.NOISE).sum(), rel=1e-10)
