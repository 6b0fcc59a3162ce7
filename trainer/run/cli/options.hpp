// The command line of `train`.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trainer/checkpoint/checkpoint_cadence.hpp"
#include "trainer/compute/numeric.hpp"
#include "trainer/data/load.hpp"
#include "trainer/model/model.hpp"
#include "trainer/optim/optimizer.hpp"
#include "trainer/optim/schedule.hpp"
#include "trainer/run/cli/preparation_settings.hpp"
#include "trainer/run/report/score.hpp"

namespace ddprun::trainer {

enum class Resume {
  automatic,  ///< the newest usable checkpoint; warns about newer ones that it skips
  strict,     ///< refuses to start where `automatic` would skip one
  never,      ///< starts from step 0
};

/// Where a worker trains.
enum class DeviceKind {
  automatic,  ///< on a GPU where there is one that can be used, else on the CPU
  cpu,
  cuda,
};

/// How a step is spread over devices.
enum class Parallel {
  ddp,  ///< one for each worker: torch.nn.parallel.DistributedDataParallel
  dp,   ///< several of one worker: torch.nn.DataParallel
};

/// Whether a step is given to a GPU as CUDA graphs.
enum class CudaGraph {
  automatic,  ///< where it can be captured
  off,
};

/// What weight decay applies to.
enum class Decay {
  weights,  ///< those of convolutions, transposed or not, linear layers and embeddings
  all,      ///< biases and norms too: PyTorch's default
};

/// Which loss --schedule=plateau goes by.
enum class PlateauOn { held_out, train };

/// --warmup: `steps` or `share` is 0.
struct Warmup {
  std::int64_t steps = 0;
  double share = 0;  ///< of all steps
  int begin = 0;     ///< Schedule::warmup_begin
};

/// --loss-scale.
struct LossScale {
  enum class Kind {
    dynamic,
    none,
    fixed,  ///< `value`; steps with an overflow are skipped
  };
  Kind kind = Kind::dynamic;
  float value = 1;
};

/// V is at most this.
inline constexpr int kShardsMax = 65'536;

struct ModelOptions {
  ModelName name = ModelName::lenet;
  std::optional<int> classes;     ///< outputs of the head; none: the data's classes
  std::optional<double> dropout;  ///< none: default_dropout()
  Stem stem = Stem::small;
  Decoder decoder = Decoder::bilinear;
  std::optional<double> positive_weight = 1;  ///< none: of the training masks
  TextSize size = TextSize::tiny;
  std::optional<double> normal_init;     ///< --init=normal:STD
  std::optional<std::string> init_from;  ///< a safetensors file with initial weights
  std::vector<std::string> init_skip;    ///< prefixes of names that it need not have
};

struct DataOptions {
  std::string folder = "generated";
  std::optional<std::string> image_shape;  ///< none: the model's default
  PreparationSettings preparation;         ///< of images
  std::optional<std::uint64_t> memory;     ///< bytes; none: see data_memory()
  bool skip_bad = false;                   ///< leave out image files that cannot be used
  std::optional<int> mask_threshold;       ///< none: kMaskThreshold
  std::optional<double> holdout;           ///< share of images/ and masks/
  int sentences = kSentences;              ///< generated ones for training
  std::optional<int> max_tokens;  ///< of a text; none: of generated ones kSentenceTokens, of files
                                  ///< what the model takes
  TokenKind tokens = TokenKind::words;     ///< of texts in files
  std::optional<std::string> piece_model;  ///< --tokens=FILE.model
};

/// How many samples, in which portions.
struct BatchOptions {
  int epochs = 5;
  std::optional<std::int64_t> max_steps;
  std::optional<int> batch;         ///< of one shard
  std::optional<int> global_batch;  ///< of all shards together
  std::optional<int> shards;
  int accumulate = 1;
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::sgd;
  std::optional<double> learning_rate;  ///< none: the optimizer's default
  std::optional<int> scale_lr;          ///< the global batch that the rate is meant for
  double momentum = 0.9;
  bool nesterov = false;
  std::array<double, 2> betas{0.9, 0.999};
  double epsilon = 1e-8;
  std::optional<double> weight_decay;  ///< none: weight_decay_of()
  Decay decay = Decay::weights;
  double grad_clip = 0;  ///< the greatest norm of all gradients; 0: any
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::cosine;
  int step_epochs = 30;  ///< schedule step: epochs between two reductions
  double step_factor = 0.1;
  PlateauRule plateau;
  PlateauOn plateau_on = PlateauOn::held_out;
  Warmup warmup;
};

struct PrecisionOptions {
  Precision format = Precision::fp32;
  LossScale loss_scale;
  std::optional<std::int64_t> inject_overflow_at;  ///< for tests: a step
};

struct DeviceOptions {
  DeviceKind kind = DeviceKind::automatic;
  Parallel parallel = Parallel::ddp;
  std::optional<int> replicas;    ///< of dp, which has it
  std::optional<int> local_rank;  ///< of --local-rank; -1: none, as launch.py's default
  bool no_deterministic = false;
  bool share_gpu = false;  ///< for tests: several workers may have one GPU
  bool exact = false;
  CudaGraph cuda_graph = CudaGraph::automatic;
  int threads_per_shard = 1;
  std::optional<int> lanes;
};

/// What passes between workers, and how long they wait for each other.
struct ExchangeOptions {
  double bucket_mb = 25;
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
  std::chrono::nanoseconds rendezvous_timeout = std::chrono::seconds(30);
};

struct CheckpointOptions {
  std::string out;  ///< empty: chosen from the run id
  Resume resume = Resume::automatic;
  CheckpointEvery every;
  int keep = 2;
  std::optional<BestBy> best_by;  ///< none: score_of()
};

struct ReportOptions {
  bool tensorboard = false;
  std::int64_t log_every = 0;  ///< steps; 0: about a second
  bool json = false;
  bool quiet = false;
};

struct Options {
  ModelOptions model;
  DataOptions data;
  BatchOptions batches;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  PrecisionOptions precision;
  DeviceOptions device;
  ExchangeOptions comm;
  CheckpointOptions checkpoints;
  ReportOptions report;
  std::uint64_t seed = 0;
  bool eval = false;  ///< evaluates model.init_from, trains nothing
};

/// The program is to end at once with this text: --help, --version, or a usage error.
struct EarlyExit {
  int code = 0;
  std::string text;  ///< for stdout if code is 0, else for stderr
};

/// Reads the command line (without the program's name). Both spellings of every name (--max-steps,
/// --max_steps). `gpu_versions`: further lines of --version.
std::variant<Options, EarlyExit> parse_options(
    const std::vector<std::string>& arguments,
    const std::function<std::string()>& gpu_versions = [] { return std::string(); });

/// The learning rate in use.
double base_rate(const Options& options);
/// --weight-decay, else that of the optimizer in PyTorch: adamw 0.01, sgd 0.
double weight_decay_of(const Options& options);

/// The probability of dropout in use; 0 of models without one.
double dropout_of(const Options& options);

/// The shape of generated pictures and of image files.
ImageShape generated_shape(const Options& options);

/// Devices of one worker: --replicas, and 1 with ddp.
int replicas_of(const Options& options);

std::string to_string(Precision precision);
std::string to_string(ModelName model);
std::string to_string(Stem stem);
std::string to_string(Decoder decoder);
std::string to_string(TextSize size);
std::string to_string(TokenKind kind);

/// Whether the samples are drawn, not read from files.
bool is_generated(const Options& options);
std::string to_string(OptimizerKind kind);
std::string to_string(Decay decay);
std::string to_string(ScheduleKind kind);
std::string to_string(PlateauOn loss);

}  // namespace ddprun::trainer
