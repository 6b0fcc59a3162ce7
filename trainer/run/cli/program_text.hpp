// What `train` tells of its command line beside its options.
#pragma once

#include <vector>

#include "texts/program_text.hpp"

namespace ddprun::trainer {

inline constexpr const char* kShortHelp =
    R"(Usage: [ddprun [OPTIONS OF DDPRUN]] train [OPTIONS]

Trains a small network on CPUs or GPUs. The same command continues a run that
was stopped, if it names the run's folder: --out=FOLDER.

  ddprun --nproc-per-node=2 train                two workers, generated pictures
  ddprun --nproc-per-node=2 train --data=FOLDER  files of MNIST, CIFAR-10, JPEG
  ddprun train --eval --resume-from=FOLDER       figures of its best checkpoint

  --model=NAME           lenet, alexnet, resnet18, unet16, unet-resnet34,
                         unet-resnet101, textclf (default: lenet)
  --data=FOLDER          images, masks or texts (default: generated)
  --epochs=N             passes over the training set (default: 5)
  --max-steps=N          stop after N steps
  --batch=N              samples of one shard (default: 64)
  --optimizer=sgd|adamw  update rule (default: sgd, of textclf adamw)
  --lr=X                 learning rate
  --precision=FORMAT     number format of the computation on GPUs
  --seed=N               of weights, order and draws
  --out=FOLDER           checkpoints and metrics.jsonl (default: a new folder in
                         ddprun-out)
  --keep=N|all           checkpoints to keep beside the best one

train --help lists all options, --help=optimizer one group; --man explains them.
)";

/// An example of each option, for its man page and its page in Markdown. A test parses all of them.
inline std::vector<Term> option_examples() {
  return {
      {"--model", "ddprun train --model=resnet18"},
      {"--classes", "ddprun train --classes=20"},
      {"--dropout", "ddprun train --model=alexnet --dropout=0.3"},
      {"--stem", "ddprun train --model=resnet18 --stem=imagenet --image-shape=64x64x3"},
      {"--decoder", "ddprun train --model=unet16 --decoder=deconv"},
      {"--pos-weight", "ddprun train --model=unet16 --pos-weight=auto"},
      {"--size", "ddprun train --model=textclf --size=tiny"},
      {"--data", "ddprun train --data=data/mnist"},
      {"--image-shape", "ddprun train --image-shape=32x32x3"},
      {"--crop", "ddprun train --data=data/cifar10 --crop=32+4"},
      {"--flip", "ddprun train --data=data/cifar10 --flip"},
      {"--normalize", "ddprun train --data=data/cifar10 --normalize=imagenet"},
      {"--data-memory", "ddprun train --data=data/pictures --data-memory=20G"},
      {"--skip-bad", "ddprun train --data=data/pictures --skip-bad"},
      {"--mask-threshold", "ddprun train --model=unet16 --data=data/cracks --mask-threshold=200"},
      {"--holdout", "ddprun train --model=unet16 --data=data/cracks --holdout=0.2"},
      {"--sentences", "ddprun train --model=textclf --sentences=1000"},
      {"--max-tokens", "ddprun train --model=textclf --max-tokens=32"},
      {"--tokens", "ddprun train --model=textclf --data=data/sst2 --tokens=bytes"},
      {"--init", "ddprun train --init=normal:0.02"},
      {"--init-from", "ddprun train --init-from=weights.safetensors"},
      {"--init-skip", "ddprun train --init-from=weights.safetensors --init-skip=fc3."},
      {"--epochs", "ddprun train --epochs=3"},
      {"--max-steps", "ddprun train --max-steps=100"},
      {"--batch", "ddprun --nproc-per-node=2 train --batch=32"},
      {"--global-batch", "ddprun --nproc-per-node=2 train --global-batch=256"},
      {"--shards", "ddprun --nproc-per-node=2 train --shards=8"},
      {"--accumulate", "ddprun --nproc-per-node=2 train --accumulate=4"},
      {"--optimizer", "ddprun train --optimizer=adamw"},
      {"--lr", "ddprun train --lr=0.1"},
      {"--scale-lr", "ddprun --nproc-per-node=4 train --lr=0.1 --scale-lr=256"},
      {"--momentum", "ddprun train --momentum=0.95"},
      {"--nesterov", "ddprun train --momentum=0.9 --nesterov"},
      {"--betas", "ddprun train --optimizer=adamw --betas=0.9,0.95"},
      {"--eps", "ddprun train --optimizer=adamw --eps=1e-6"},
      {"--weight-decay", "ddprun train --weight-decay=0.0005"},
      {"--decay", "ddprun train --weight-decay=0.0005 --decay=all"},
      {"--grad-clip", "ddprun train --grad-clip=1"},
      {"--schedule", "ddprun train --schedule=cosine"},
      {"--step-epochs", "ddprun train --epochs=90 --schedule=step --step-epochs=30"},
      {"--step-factor", "ddprun train --epochs=90 --schedule=step --step-factor=0.1"},
      {"--plateau-on", "ddprun train --schedule=plateau --plateau-on=train"},
      {"--plateau-patience", "ddprun train --schedule=plateau --plateau-patience=3"},
      {"--plateau-factor", "ddprun train --schedule=plateau --plateau-factor=0.5"},
      {"--warmup", "ddprun train --warmup=6%"},
      {"--precision", "ddprun train --precision=bf16"},
      {"--loss-scale", "ddprun train --precision=fp16 --loss-scale=1024"},
      {"--seed", "ddprun train --seed=7"},
      {"--device", "ddprun train --device=cpu"},
      {"--parallel", "ddprun train --parallel=dp --replicas=2"},
      {"--replicas", "ddprun train --parallel=dp --replicas=4"},
      {"--no-deterministic", "ddprun --nproc-per-node=gpu train --no-deterministic"},
      {"--exact", "ddprun --nproc-per-node=gpu train --exact"},
      {"--cuda-graph", "ddprun --nproc-per-node=gpu train --cuda-graph=off"},
      {"--local-rank", "ddprun train --local-rank=0"},
      {"--threads-per-shard", "ddprun train --threads-per-shard=2"},
      {"--lanes", "ddprun train --accumulate=4 --lanes=2"},
      {"--bucket-mb", "ddprun --nproc-per-node=2 train --bucket-mb=4"},
      {"--comm-timeout", "ddprun --nproc-per-node=2 train --comm-timeout=2m"},
      {"--rendezvous-timeout", "ddprun --nproc-per-node=2 train --rendezvous-timeout=5m"},
      {"--out", "ddprun --nproc-per-node=2 train --out=runs/first"},
      {"--resume", "ddprun --nproc-per-node=2 train --out=runs/first --resume=strict"},
      {"--eval", "ddprun train --eval --resume-from=runs/first"},
      {"--resume-from", "ddprun train --resume-from=runs/first --eval"},
      {"--checkpoint-every", "ddprun train --checkpoint-every=30s"},
      {"--best", "ddprun train --best=loss"},
      {"--keep", "ddprun train --keep=5"},
      {"--log-every", "ddprun train --out=runs/first --log-every=10"},
      {"--tensorboard", "ddprun train --out=runs/first --tensorboard"},
      {"--json", "ddprun train --json"},
      {"--quiet", "ddprun train --quiet"},
      {"--completion", "ddprun train --completion=bash"},
      {"--man", "ddprun train --man | man -l -"},
      {"--version", "ddprun train --version"},
      {"--help", "ddprun train --help=optimizer"},
  };
}

inline ProgramText program_text() {
  return {
      .name = "train",
      .page = "ddprun-train",
      .purpose = "trains a small network with distributed data parallelism on CPUs or GPUs",
      .synopsis = "[ddprun [OPTIONS OF DDPRUN]] train [OPTIONS]",
      .short_help = kShortHelp,
      .description =
          "train is the trainer that comes with ddprun: it trains a small network with distributed "
          "data parallelism on CPUs or GPUs.\n"
          "A global batch is always V shards of b samples. The number of workers only decides "
          "which worker computes which shard: the same V and b give the same weights, to the last "
          "bit, with any number of workers, with accumulation, and across restarts; on GPUs with "
          "--exact.",
      .examples =
          {{"ddprun train", "one worker, on generated pictures"},
           {"ddprun --nproc-per-node=2 train", "two workers"},
           {"ddprun --nproc-per-node=2 --max-restarts=3 train --data FOLDER --out runs/first",
            "on the files of MNIST, Fashion-MNIST or CIFAR-10 in FOLDER; the group is started "
            "again after "
            "a failure"},
           {"ddprun train --eval --resume-from=runs/first --data FOLDER",
            "the figures of its best checkpoint, for each class"}},
      .option_examples = option_examples(),
      .sections = {{.title = "Checkpoints and restarts",
                    .text =
                        "A worker group that ddprun starts again continues from its newest "
                        "intact checkpoint.\n"
                        "Without --out, a new run has a new folder in ddprun-out, named by date "
                        "and time or by ddprun's --rdzv-id, and starts fresh; the link latest "
                        "leads to the newest. With --out DIR, the directory is the run: "
                        "the same DIR continues where it stopped, with any number of workers. "
                        "With several machines, DIR must be in a folder that all "
                        "of them share.\n"
                        "SIGTERM and SIGINT end a run after a step, with a checkpoint of it, "
                        "so the same command with --out goes on there. A second signal ends "
                        "it at once."},
                   {.title = "Exit status",
                    .terms = {{"0", "Done"},
                              {"1", "Failed"},
                              {"2", "Unusable options, data or checkpoint"},
                              {"75", "Another worker was lost"},
                              {"128+N", "Stopped by signal N"}}}},
      .see_also = "ddprun(1)",
      .topics = {{"What to train", "task"}},
      .launcher = "ddprun"};
}

}  // namespace ddprun::trainer
