"""The U-Nets of `train` in PyTorch (trainer/model/unet.cpp)."""

import torch
from dropout import Dropout
from resnet18 import BasicBlock, stage
from torch import nn
from torch.nn import functional

FILTERS = 32


class ConvRelu(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)

    def forward(self, x):
        return functional.relu(self.conv(x))


class Block(nn.Module):
    """Twice the height and the width."""

    def __init__(self, decoder, inputs, middle, outputs):
        super().__init__()
        if decoder == "deconv":
            self.block = nn.Sequential(ConvRelu(inputs, middle), nn.ConvTranspose2d(middle, outputs, 4, 2, 1), nn.ReLU())
        else:
            enlarge = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
            self.block = nn.Sequential(enlarge, ConvRelu(inputs, middle), ConvRelu(middle, outputs))

    def forward(self, x):
        return self.block(x)


def use_he(module):
    for one in module.modules():
        if isinstance(one, nn.Conv2d):
            nn.init.kaiming_normal_(one.weight, mode="fan_out", nonlinearity="relu")
            if one.bias is not None:
                nn.init.zeros_(one.bias)


class UNet16(nn.Module):
    """VGG16's convolutions are `features`, as in torchvision."""

    def __init__(self, image_shape, decoder="bilinear"):
        super().__init__()
        layers, self.ends = [], []
        channels = image_shape[2]
        for convolutions, outputs in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
            for _ in range(convolutions):
                layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU()]
                channels = outputs
            self.ends.append(len(layers))
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        use_he(self.features)
        self.center = Block(decoder, 512, 16 * FILTERS, 8 * FILTERS)
        self.dec5 = Block(decoder, 512 + 8 * FILTERS, 16 * FILTERS, 8 * FILTERS)
        self.dec4 = Block(decoder, 512 + 8 * FILTERS, 16 * FILTERS, 8 * FILTERS)
        self.dec3 = Block(decoder, 256 + 8 * FILTERS, 8 * FILTERS, 2 * FILTERS)
        self.dec2 = Block(decoder, 128 + 2 * FILTERS, 4 * FILTERS, FILTERS)
        self.dec1 = ConvRelu(64 + FILTERS, FILTERS)
        self.final = nn.Conv2d(FILTERS, 1, 1)

    def forward(self, x):
        stages = []
        for number, layer in enumerate(self.features):
            if number in self.ends:
                stages.append(x)
            x = layer(x)
        x = self.center(x)
        for decode in (self.dec5, self.dec4, self.dec3, self.dec2, self.dec1):
            x = decode(torch.cat((x, stages.pop()), 1))
        return self.final(x).squeeze(1)


class Bottleneck(nn.Module):
    def __init__(self, inputs, channels, stride):
        super().__init__()
        outputs = 4 * channels
        self.conv1 = nn.Conv2d(inputs, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        y = functional.relu(self.bn2(self.conv2(y)))
        return functional.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class UNetResNet(nn.Module):
    def __init__(self, image_shape, blocks, bottleneck, decoder="bilinear", dropout=0.2):
        super().__init__()
        self.conv1 = nn.Conv2d(image_shape[2], 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        kind, factor = (Bottleneck, 4) if bottleneck else (BasicBlock, 1)
        channels = 64
        for number, count in enumerate(blocks):
            outputs = 64 * 2**number
            setattr(self, f"layer{number + 1}", stage(kind, channels, outputs, count, 1 if number == 0 else 2, factor))
            channels = outputs * factor
        use_he(self)
        self.center = Block(decoder, channels, 16 * FILTERS, 8 * FILTERS)
        self.dec5 = Block(decoder, channels + 8 * FILTERS, 16 * FILTERS, 8 * FILTERS)
        self.dec4 = Block(decoder, channels // 2 + 8 * FILTERS, 16 * FILTERS, 8 * FILTERS)
        self.dec3 = Block(decoder, channels // 4 + 8 * FILTERS, 8 * FILTERS, 2 * FILTERS)
        self.dec2 = Block(decoder, channels // 8 + 2 * FILTERS, 4 * FILTERS, 4 * FILTERS)
        self.dec1 = Block(decoder, 4 * FILTERS, 4 * FILTERS, FILTERS)
        self.dec0 = ConvRelu(FILTERS, FILTERS)
        self.dropout = Dropout(dropout, 0, whole_channels=True)
        self.final = nn.Conv2d(FILTERS, 1, 1)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 2)
        stages = []
        for encode in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = encode(x)
            stages.append(x)
        x = self.center(functional.max_pool2d(x, 2))
        for decode in (self.dec5, self.dec4, self.dec3, self.dec2):
            x = decode(torch.cat((x, stages.pop()), 1))
        return self.final(self.dropout(self.dec0(self.dec1(x)))).squeeze(1)


class UNetResNet34(UNetResNet):
    def __init__(self, image_shape, **options):
        super().__init__(image_shape, (3, 4, 6, 3), False, **options)


class UNetResNet101(UNetResNet):
    def __init__(self, image_shape, **options):
        super().__init__(image_shape, (3, 4, 23, 3), True, **options)
