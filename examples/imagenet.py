"""Trains an image classifier, in the shape of the ImageNet script that comes with PyTorch: argparse,
train(), validate(), accuracy(). The pictures are made up, so that it runs anywhere, without a download
and on a CPU.

    PROBING_TORCH_PROFILING="on,exprs=loss@train,acc1@train" PROBE=1 python examples/imagenet.py

then, while it runs:

    probing -t <pid> query "SELECT epoch, avg(loss), max(acc1) FROM training_logs GROUP BY epoch"
    probing -t <pid> query "SELECT module, stage, avg(duration_ms) FROM python.torch_trace
                            GROUP BY ALL ORDER BY 3 DESC LIMIT 10"
    probing -t <pid> query "SELECT step, duration, data_wait, forward, backward FROM python.torch_steps"
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def parse_args():
    parser = argparse.ArgumentParser(description="image classification on made-up pictures")
    parser.add_argument("--epochs", default=3, type=int)
    parser.add_argument("-b", "--batch-size", default=16, type=int)
    parser.add_argument("-j", "--workers", default=0, type=int)
    parser.add_argument("--images", default=512, type=int, help="pictures in an epoch")
    parser.add_argument("--size", default=32, type=int, help="of a picture, in pixels")
    parser.add_argument("--classes", default=10, type=int)
    parser.add_argument("--lr", default=0.05, type=float)
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("-p", "--print-freq", default=10, type=int)
    return parser.parse_args()


class MadeUpImages(Dataset):
    """Noise with a brighter stripe; where the stripe is says which class it is."""

    def __init__(self, count, size, classes, seed):
        self.count, self.size, self.classes, self.seed = count, size, classes, seed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(self.seed + index)
        label = int(torch.randint(self.classes, (1,), generator=generator))
        image = torch.randn(3, self.size, self.size, generator=generator)
        width = max(self.size // self.classes, 1)
        image[:, :, label * width : (label + 1) * width] += 2
        return image, label


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + self.shortcut(x))


class SmallResNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)
        )
        self.layer1 = nn.Sequential(Block(16, 16, 1), Block(16, 16, 1))
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.stem(x))))
        return self.fc(torch.flatten(self.pool(x), 1))


def accuracy(output, target, topk=(1,)):
    """How many of a hundred are right, when the best k guesses count."""
    with torch.no_grad():
        _, pred = output.topk(max(topk), 1, True, True)
        correct = pred.t().eq(target.view(1, -1))
        return [correct[:k].reshape(-1).float().sum(0, keepdim=True) * (100.0 / target.size(0)) for k in topk]


def train(loader, model, criterion, optimizer, epoch, device, args):
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(loader):
        images, target = images.to(device, non_blocking=True), target.to(device, non_blocking=True)
        output = model(images)
        loss = criterion(output, target)
        acc1, _acc5 = accuracy(output, target, topk=(1, 5))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % args.print_freq == 0:
            spent = time.time() - end
            line = "Epoch: [%d][%3d/%d]  Time %6.3f  Loss %.4f  Acc@1 %6.2f"
            print(line % (epoch, i, len(loader), spent, loss.item(), acc1.item()), flush=True)
        end = time.time()


def validate(loader, model, criterion, device):
    model.eval()
    losses, hits, count = 0.0, 0.0, 0
    with torch.no_grad():
        for images, target in loader:
            images, target = images.to(device), target.to(device)
            output = model(images)
            loss = criterion(output, target)
            (acc1,) = accuracy(output, target)
            losses += loss.item() * len(target)
            hits += acc1.item() * len(target)
            count += len(target)
    print(" *   Loss %.4f  Acc@1 %6.2f" % (losses / count, hits / count), flush=True)
    return hits / count


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = SmallResNet(args.classes).to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30, gamma=0.1)
    options = {"batch_size": args.batch_size, "num_workers": args.workers}
    train_set = MadeUpImages(args.images, args.size, args.classes, seed=0)
    val_set = MadeUpImages(args.images // 4, args.size, args.classes, seed=1 << 20)
    train_loader = DataLoader(train_set, shuffle=True, **options)
    val_loader = DataLoader(val_set, **options)
    for epoch in range(args.epochs):
        train(train_loader, model, criterion, optimizer, epoch, device, args)
        validate(val_loader, model, criterion, device)
        scheduler.step()


if __name__ == "__main__":
    main()
