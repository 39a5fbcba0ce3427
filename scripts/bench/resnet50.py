"""Define ResNet-50, the usual model for measuring data loaders (He et al. 2015, arXiv:1512.03385).

As usual, the 3×3 convolution of a block has its stride, not the first 1×1 one.
"""

from __future__ import annotations

import torch
from torch import nn

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # channels, blocks, first stride
WIDER = 4  # output channels of a block, as a multiple of its inner ones


def resnet50(classes: int) -> nn.Module:
    """Return the model, which maps N×3×H×W to N×classes."""
    layers: list[nn.Module] = [
        *convolution(3, 64, 7, 2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    before = 64
    for channels, blocks, stride in STAGES:
        for number in range(blocks):
            layers.append(Block(before, channels, 1 if number else stride))
            before = channels * WIDER
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def convolution(before: int, after: int, size: int, stride: int = 1) -> list[nn.Module]:
    """Return a convolution with its normalisation."""
    return [
        nn.Conv2d(before, after, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(after),
    ]


class Block(nn.Module):
    """Convolutions of 1×1, 3×3 and 1×1 with a skip connection."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        after = channels * WIDER
        self.main = nn.Sequential(
            *convolution(before, channels, 1),
            nn.ReLU(inplace=True),
            *convolution(channels, channels, 3, stride),
            nn.ReLU(inplace=True),
            *convolution(channels, after, 1),
        )
        same = stride == 1 and before == after
        self.beside = (
            nn.Identity() if same else nn.Sequential(*convolution(before, after, 1, stride))
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Apply the block to N×before×H×W."""
        added: torch.Tensor = self.main(images) + self.beside(images)
        return torch.relu(added)
