"""ResNet-50, the model that data loaders are measured with (He et al. 2015, arXiv:1512.03385).

As is usual, a block's stride is that of its 3×3 convolution, not of the first 1×1.
"""

from __future__ import annotations

import torch
from torch import nn

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # channels, blocks, first stride
WIDER = 4  # a block's output channels, times its own


def resnet50(classes: int) -> nn.Module:
    """From N×3×H×W to N×classes."""
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
    """With its normalisation."""
    return [
        nn.Conv2d(before, after, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(after),
    ]


class Block(nn.Module):
    """1×1, 3×3 and 1×1 beside a connection that leaves them out."""

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
        """N×before×H×W."""
        added: torch.Tensor = self.main(images) + self.beside(images)
        return torch.relu(added)
