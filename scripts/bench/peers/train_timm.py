"""timm's inception_v3 trained with torch, as steps to be timed.

This file is run by the Python that has torch, which does not know this project: it imports nothing
of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def train(
    layers: str, size: str, batch: str, classes: str, steps: str
) -> Callable[[], dict[str, Any]]:
    """The step: so many steps of Adam, in float32, on pictures that lie in memory.

    Args:
      layers: "head": the trunk is frozen and in evaluation mode; "all": all layers train.
      size: height and width of the input in pixels.
      batch: pictures a step.
      classes: length of the logits.
      steps: how many are run a call.
    """
    import timm
    import torch

    torch.manual_seed(0)
    model = timm.create_model("inception_v3", pretrained=False, num_classes=int(classes))
    model = model.to(memory_format=torch.channels_last)  # more than twice as fast on a CPU
    model.train(layers == "all")
    if layers == "head":
        model.requires_grad_(False)
        model.get_classifier().requires_grad_(True)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-4)
    images = torch.rand(int(batch), 3, int(size), int(size)) * 2 - 1
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(0, int(classes), (int(batch),))

    def run() -> dict[str, Any]:
        for _ in range(int(steps)):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        return {
            "pictures": int(steps) * int(batch),
            "loss": loss.item(),
            "versions": {"timm": timm.__version__, "torch": torch.__version__},
        }

    return run
