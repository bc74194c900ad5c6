"""Shapes and textures for pretraining: many kinds, none a flower, no drawing in common."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import finetune.sample
from checkpoints.errors import NotFoundError
from finetune.sample import flowers, shapes
from finetune.sample.shapes import KINDS, SIDE, draw

FOLDER = Path(finetune.sample.__file__).parent


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn(kind):
    picture = draw(kind, 3)
    assert (picture.mode, picture.size) == ("RGB", (SIDE, SIDE))
    assert picture.tobytes() == draw(kind, 3).tobytes()
    assert picture.tobytes() != draw(kind, 4).tobytes()
    assert np.asarray(picture).std() > 2


def test_there_are_enough_kinds_and_none_is_a_flower():
    assert len(KINDS) >= 32
    assert len(set(KINDS)) == len(KINDS)
    assert not set(KINDS) & set(flowers.KINDS)


def test_an_unknown_shape_is_named_with_a_near_one():
    with pytest.raises(NotFoundError, match="No shape is called 'gaer'") as caught:
        draw("gaer", 0)
    assert caught.value.next_step == "Write gear."


def _modules_behind(name):
    """Modules of finetune.sample that `name` imports, directly or through others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        module = waiting.pop()
        if module in found:
            continue
        found.add(module)
        for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                if node.module == "finetune.sample":
                    waiting += [alias.name for alias in node.names]
                elif node.module.startswith("finetune.sample."):
                    waiting.append(node.module.rsplit(".", 1)[1])
    return found


def test_shapes_and_flowers_share_no_drawing_module():
    shared = _modules_behind("shapes") & _modules_behind("flowers")
    assert shared == {"seeds"}
    assert "PIL" not in (FOLDER / "seeds.py").read_text()
    assert shapes.draw is not flowers.draw
