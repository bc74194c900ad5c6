"""The notes on the recipe and on the Saver: what is restored, what trains, what is saved as what."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import checkpoints
from checkpoints.errors import PlanError
from checkpoints.family import read_state
from checkpoints.steps import step_of
from finetune import partition

pytestmark = pytest.mark.tensorflow

PICTURES = np.array([[1, 2, 3, 4], [4, 3, 2, 1]], np.float32)


def build(v1, classes):
    """[2, 4] -> Trunk [4, 6] -> Head [6, classes]; the logits."""
    trunk = v1.get_variable("Trunk/weights", [4, 6])
    head = v1.get_variable("Head/weights", [6, classes])
    return v1.matmul(v1.matmul(v1.constant(PICTURES), trunk), head)


@pytest.fixture(scope="module")
def pretrained(v1, tmp_path_factory):
    """A checkpoint of ten classes by TensorFlow's Saver; its prefix."""
    with v1.Graph().as_default(), v1.Session() as session:
        build(v1, 10)
        session.run(v1.global_variables_initializer())
        prefix = tmp_path_factory.mktemp("pretrained") / "model.ckpt"
        return v1.train.Saver().save(session, str(prefix), write_meta_graph=False)


def values(session, v1):
    """Name -> value of all variables of the session's graph."""
    variables = {variable.op.name: variable for variable in v1.global_variables()}
    return session.run(variables)


def head_plan(v1, pretrained):
    return partition(v1.global_variables(), pretrained, trainable=["Head"], exclude=["Head"])


def test_partition_and_restore(v1, session, pretrained):
    """The recipe: a head of five on a trunk of ten; the optimiser gets the head alone."""
    logits = build(v1, 5)
    plan = head_plan(v1, pretrained)
    assert [variable.op.name for variable in plan.trainable_variables] == ["Head/weights"]
    loss = v1.losses.sparse_softmax_cross_entropy([1, 3], logits)
    train_op = v1.train.AdamOptimizer(0.1).minimize(loss, var_list=plan.trainable_variables)
    # Applied last: what the optimiser made is initialised too.
    plan.apply(session)
    before, first = values(session, v1), session.run(loss)
    for _ in range(20):
        session.run(train_op)
    after = values(session, v1)
    with checkpoints.open(pretrained) as saved:
        assert before["Trunk/weights"].tobytes() == saved["Trunk/weights"].tobytes()
        assert after["Trunk/weights"].tobytes() == saved["Trunk/weights"].tobytes()
    assert not np.array_equal(after["Head/weights"], before["Head/weights"])
    assert session.run(loss) < first
    assert plan.verify_frozen(session) == 1


def test_restoring_is_the_plans_or_the_savers_not_the_sessions(v1, session, pretrained):
    """Fault: restore called on the session, which has no such method."""
    build(v1, 5)
    assert not hasattr(session, "restore")
    plan = head_plan(v1, pretrained)
    plan.apply(session)
    by_plan = values(session, v1)["Trunk/weights"]
    session.run(v1.global_variables_initializer())
    assert not np.array_equal(values(session, v1)["Trunk/weights"], by_plan)
    restored = {variable.name for variable in plan.plan.restored}
    chosen = [variable for variable in plan.variables if variable.op.name in restored]
    v1.train.Saver(chosen).restore(session, pretrained)
    assert np.array_equal(values(session, v1)["Trunk/weights"], by_plan)


def test_nothing_is_initialised_after_restoring(v1, session, pretrained):
    """Fault: the initialiser of everything, run once more after the checkpoint was restored."""
    build(v1, 5)
    plan = head_plan(v1, pretrained)
    plan.apply(session)
    assert plan.verify_frozen(session) == 1
    session.run(v1.global_variables_initializer())
    with pytest.raises(PlanError, match="1 frozen variable changed:\n  Trunk/weights"):
        plan.verify_frozen(session)


@pytest.fixture(scope="module")
def counted(v1, tmp_path_factory):
    """A folder in which a Saver that keeps two has saved the steps 1, 2 and 3."""
    folder = tmp_path_factory.mktemp("counted")
    with v1.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        loss = v1.reduce_sum(v1.square(build(v1, 2)))
        train_op = v1.train.GradientDescentOptimizer(1e-3).minimize(loss, global_step=step)
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(max_to_keep=2)
        for _ in range(3):
            session.run(train_op)
            saver.save(session, str(folder / "model.ckpt"), global_step=step)
    return folder


def test_saver_with_global_step(counted):
    """The step is in the name and in the checkpoint; no file is called by the prefix alone."""
    newest = checkpoints.latest(counted)
    assert (newest.prefix, newest.step) == (counted / "model.ckpt-3", 3)
    assert [file.name for file in newest.files] == [
        "model.ckpt-3.index",
        "model.ckpt-3.data-00000-of-00001",
    ]
    assert newest.meta == counted / "model.ckpt-3.meta"
    assert not newest.prefix.exists()
    with checkpoints.open(newest) as saved:
        assert saved["global_step"] == step_of(saved) == 3
    older = checkpoints.resolve(counted / "model.ckpt-2.data-00000-of-00001")
    assert (older.prefix.name, older.step) == ("model.ckpt-2", 2)


def test_checkpoint_state(v1, counted, tmp_path):
    """get_checkpoint_state's successor, which also finds the checkpoints of a folder that was moved."""
    state = v1.train.get_checkpoint_state(str(counted))
    found = read_state(counted)
    assert str(found.latest) == state.model_checkpoint_path
    assert list(map(str, found.all_paths)) == list(state.all_model_checkpoint_paths)
    assert [path.name for path in found.all_paths] == ["model.ckpt-2", "model.ckpt-3"]
    moved = shutil.copytree(counted, tmp_path / "moved")
    assert read_state(moved).latest == moved / "model.ckpt-3"
    assert checkpoints.latest(moved).prefix == moved / "model.ckpt-3"
    assert checkpoints.latest(tmp_path) is None
