"""Plans bound to a graph and session of one's own, reference and resource variables."""

import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.errors import NotFoundError, PlanError, UsageError
from exporters.runtime import GraphRunner, load_tensorflow
from finetune import partition, plan

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def v1():
    return load_tensorflow().compat.v1


def build(v1, classes, use_resource):
    """Placeholder [None, 4] -> body [4, 6] -> head [6, classes]."""
    with v1.variable_scope("", use_resource=use_resource):
        x = v1.placeholder(v1.float32, [None, 4], name="x")
        body = v1.get_variable("body/weights", [4, 6])
        head = v1.get_variable("head/weights", [6, classes])
        biases = v1.get_variable("head/biases", [classes])
        return x, v1.matmul(v1.matmul(x, body), head) + biases


@pytest.fixture
def saved(v1, tmp_path):
    path = str(tmp_path / "m.ckpt")
    with v1.Graph().as_default(), v1.Session() as session:
        build(v1, 10, True)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, path, write_meta_graph=False)
    return path


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_head_of_ten_is_not_loaded_into_one_of_five(v1, saved, use_resource):
    with v1.Graph().as_default():
        build(v1, 5, use_resource)
        with pytest.raises(PlanError) as caught:
            partition(v1.global_variables(), saved, trainable=["head"])
    assert "head/weights: checkpoint [6, 10], net [6, 5]" in caught.value.message
    assert "head/biases: checkpoint [10], net [5]" in caught.value.message
    assert caught.value.next_step == "--exclude head initialises them instead."


@pytest.mark.parametrize("use_resource", [False, True])
def test_the_recipe_in_a_loop_of_ones_own(v1, saved, use_resource, tmp_path):
    with v1.Graph().as_default():
        v1.set_random_seed(1)
        x, logits = build(v1, 5, use_resource)
        bound = partition(v1.global_variables(), saved, trainable=["head/"], exclude=["head"])
        loss = v1.losses.sparse_softmax_cross_entropy([1, 2], logits)
        optimizer = v1.train.AdamOptimizer(0.1)
        train_op = optimizer.minimize(loss, var_list=bound.trainable_variables)
        names = [variable.op.name for variable in bound.trainable_variables]
        assert names == ["head/weights", "head/biases"]
        with v1.Session() as session:
            bound.apply(session)
            body, head = session.run(v1.global_variables()[:2])
            with checkpoints.open(saved) as source:
                assert body.tobytes() == source["body/weights"].tobytes()
            session.run(train_op, {x: np.ones((2, 4), np.float32)})
            assert not np.array_equal(session.run(v1.global_variables()[1]), head)
            assert bound.verify_frozen(session) == 1
            inputs = np.arange(8, dtype=np.float32).reshape(2, 4)
            answers = session.run(logits, {x: inputs})
            done = exporters.freeze(
                session.graph, session, outputs=[logits.op.name], path=tmp_path / "model.pb"
            )
            assert done.verification.passed
    with GraphRunner(tmp_path / "model.pb") as runner:
        np.testing.assert_allclose(runner.run(inputs)[0], answers, rtol=1e-5)


def test_initialising_after_restoring_is_found_out(v1, saved):
    """Case R6."""
    with v1.Graph().as_default(), v1.Session() as session:
        build(v1, 5, True)
        bound = partition(v1.global_variables(), saved, trainable=["head"], exclude=["head"])
        bound.apply(session)
        session.run(v1.global_variables_initializer())
        with pytest.raises(PlanError) as caught:
            bound.verify_frozen(session)
    assert caught.value.message == "1 frozen variable changed:\n  body/weights"
    assert "run no initialiser after plan.apply(session)" in caught.value.next_step


def test_an_optimiser_that_got_the_whole_net_is_found_out(v1, saved):
    with v1.Graph().as_default():
        x, logits = build(v1, 5, True)
        bound = partition(v1.global_variables(), saved, trainable=["head"], exclude=["head"])
        loss = v1.losses.sparse_softmax_cross_entropy([1, 2], logits)
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        with v1.Session() as session:
            bound.apply(session)
            session.run(train_op, {x: np.ones((2, 4), np.float32)})
            with pytest.raises(PlanError, match="body/weights"):
                bound.verify_frozen(session)


def test_verifying_before_applying_is_refused(v1, saved):
    with v1.Graph().as_default(), v1.Session() as session:
        build(v1, 5, True)
        bound = partition(v1.global_variables(), saved, trainable=["head"], exclude=["head"])
        with pytest.raises(PlanError, match="was not applied"):
            bound.verify_frozen(session)


def test_half_floats_are_restored_as_the_nets_floats(v1, tmp_path):
    values = {"body/weights": np.arange(24, dtype=np.float16).reshape(4, 6) / 7}
    checkpoints.write(tmp_path / "half.ckpt", values)
    with v1.Graph().as_default(), v1.Session() as session:
        build(v1, 5, True)
        bound = partition(
            v1.global_variables(),
            tmp_path / "half.ckpt",
            trainable=["head"],
            allow_missing="head/.*",
        )
        bound.apply(session)
        found = session.run(v1.global_variables()[0])
    assert found.dtype == np.float32
    assert (found == values["body/weights"].astype(np.float32)).all()


def test_a_registered_nets_plan_excludes_both_heads_by_default(tiny_checkpoint):
    made = plan(net="tiny", classes=3, checkpoint=str(tiny_checkpoint))
    assert made.exclude == ("Tiny/Logits", "Tiny/AuxLogits")
    assert made.trainable == ("Tiny/Logits",)
    assert (len(made.restored), len(made.initialised)) == (8, 4)
    assert [u.reason for u in made.unused] == ["class-count"] * 4
    auxiliary = [v for v in made.variables if "AuxLogits" in v.name]
    assert {(v.state, v.origin) for v in auxiliary} == {("frozen", "initialised")}


def test_excluding_none_restores_heads_of_equal_shape(tiny_checkpoint):
    made = plan(net="tiny", classes=7, checkpoint=str(tiny_checkpoint), exclude=("none",))
    assert len(made.restored) == 12
    hinted = plan(net="tiny", classes=7, checkpoint=str(tiny_checkpoint))
    assert any("--exclude none" in note for note in hinted.notes)


def test_a_published_checkpoint_of_another_net_is_refused(tiny_net):
    with pytest.raises(PlanError) as caught:
        plan(net="vgg_16", classes=3, checkpoint="sample")
    assert caught.value.expected == "--net inception_v3_sample"


def test_a_word_that_is_neither_a_file_nor_a_name_gets_the_names(tiny_net, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFoundError, match="neither a file here nor a published name") as caught:
        plan(net="tiny", classes=3, checkpoint="inceptoin_v3")
    assert "inception_v3" in caught.value.expected


def test_hidden_layers_are_variables_of_the_head(tiny_checkpoint):
    made = plan(net="tiny", classes=3, checkpoint=str(tiny_checkpoint), hidden=(5, 4))
    hidden = {v.name: v for v in made.variables if "/Hidden_" in v.name}
    assert {name: v.shape for name, v in hidden.items()} == {
        "Tiny/Logits/Hidden_1/weights": (1, 1, 16, 5),
        "Tiny/Logits/Hidden_1/biases": (5,),
        "Tiny/Logits/Hidden_2/weights": (1, 1, 5, 4),
        "Tiny/Logits/Hidden_2/biases": (4,),
    }
    assert {(v.state, v.origin) for v in hidden.values()} == {("trainable", "initialised")}
    made.require_sound()


def test_each_phase_says_what_begins_to_train(tiny_checkpoint):
    made = plan(
        net="tiny",
        classes=3,
        checkpoint=str(tiny_checkpoint),
        unfreeze_at=("9e:all", "5e:Tiny/Conv2d_10"),
    )
    assert made.trainable == ("Tiny/Logits",)
    assert [(phase.begins, phase.scopes) for phase in made.phases] == [
        ("step 1", ("Tiny/Logits",)),
        ("epoch 6", ("Tiny/Conv2d_10",)),
        ("epoch 10", ("Tiny",)),
    ]
    assert made.phases[1].variables == (
        "Tiny/Conv2d_10/weights",
        "Tiny/Conv2d_10/BatchNorm/beta",
    )
    assert made.phases[1].parameters == 3 * 3 * 8 * 16 + 16
    names = [name for phase in made.phases for name in phase.variables]
    # Batch norms behind which a head has learned keep the averages it has learned from.
    assert sorted(names) == sorted(
        variable.name for variable in made.variables if "moving" not in variable.name
    )
    assert made.lines()[-3:] == [
        "Phase 1 of 3, from step 1 on, trains Tiny/Logits: 2 variables, 51 parameters.",
        "Phase 2 of 3, from epoch 6 on, also trains Tiny/Conv2d_10: 2 more variables, "
        "1,168 more parameters.",
        "Phase 3 of 3, from epoch 10 on, also trains Tiny: 4 more variables, 251 more parameters.",
    ]
    assert made.as_json()["phases"][1]["scopes"] == ("Tiny/Conv2d_10",)


def test_steps_among_epochs_are_noted(tiny_checkpoint):
    made = plan(
        net="tiny",
        classes=3,
        checkpoint=str(tiny_checkpoint),
        unfreeze_at=("5:Tiny/Conv2d_10", "3e:Tiny/Conv2d_1"),
    )
    assert [phase.begins for phase in made.phases] == ["step 1", "step 6", "epoch 4"]
    assert made.notes[-1].startswith("steps and epochs in --unfreeze-at")


def test_a_misspelled_scope_of_a_later_phase_names_its_option(tiny_checkpoint):
    with pytest.raises(PlanError, match="--unfreeze-at names a scope without a variable") as caught:
        plan(
            net="tiny", classes=3, checkpoint=str(tiny_checkpoint), unfreeze_at=("5:Tiny/Conv_10",)
        )
    assert "Tiny/Conv2d_10" in caught.value.message
    assert caught.value.received == "Tiny/Conv_10"


def test_a_phase_that_begins_nothing_says_so_and_step_0_is_no_stage(tiny_net):
    options = {"net": "tiny", "classes": 3, "checkpoint": "none"}
    first, phase = plan(**options, unfreeze_at=("10:Tiny/Logits",)).lines()[::2]
    assert "variables, 1,518 parameters: 0 restored, 12 initialised;" in first
    assert phase == (
        "Phase 2 of 2, from step 11 on, trains nothing that did not train before; the learning "
        "rate changes, and the optimiser starts afresh."
    )
    with pytest.raises(UsageError, match="from 1 on, received 0:Tiny/Conv2d_1"):
        plan(**options, unfreeze_at=("0:Tiny/Conv2d_1",))


def test_options_of_a_plan_are_checked_together(tiny_net):
    with pytest.raises(UsageError) as caught:
        plan(net="tiny", classes=3, checkpoint="none", hidden=("x",), unfreeze_at=("soon:all",))
    assert caught.value.message == (
        "The options do not fit:\n"
        "  --hidden: expected whole numbers from 1, received x\n"
        "  --unfreeze-at: expected STEP:SCOPE,... or EPOCHe:SCOPE,..., from 1 on, "
        "received soon:all"
    )
