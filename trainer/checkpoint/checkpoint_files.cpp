#include "trainer/checkpoint/checkpoint_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>

#include "base/assert.hpp"
#include "trainer/checkpoint/durable_file.hpp"
#include "trainer/checkpoint/safetensors.hpp"
#include "trainer/error.hpp"
#include "trainer/model/layout.hpp"

namespace ddprun::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian floats");

constexpr std::uint64_t kStateBytesMax = std::uint64_t{64} << 20;
constexpr const char* kPyTorchFormat = "pt";  // what safetensors.torch writes under "format"

/// An arena to be written: the suffix of its tensors' names, and its values.
struct ArenaView {
  std::string suffix;
  std::span<const float> values;
};

/// Moments are of what the optimizer changes: running statistics have none.
bool is_in(const std::string& suffix, const Parameter& parameter) {
  return suffix.empty() || parameter.role == ParameterRole::weight;
}

/// PyTorch's batch norm counts its batches beside its running mean.
std::vector<TensorSpec> batch_counters(const CheckpointLayout& layout) {
  constexpr std::string_view kMean = "running_mean";
  std::vector<TensorSpec> counters;
  for (const Parameter& parameter : layout.parameters) {
    if (!parameter.name.ends_with(kMean)) continue;
    const std::string layer = parameter.name.substr(0, parameter.name.size() - kMean.size());
    counters.push_back({layer + "num_batches_tracked", {}, TensorSpec::Type::i64});
  }
  return counters;
}

std::string tensor_name(const Parameter& parameter, const std::string& suffix) {
  return suffix.empty() ? parameter.name : parameter.name + "." + suffix;
}

/// `counters`, each of `count`, come first: the format wants the widest type there.
FileDigest write_arenas(const std::filesystem::path& path, const CheckpointLayout& layout,
                        const std::vector<ArenaView>& arenas,
                        const std::vector<TensorSpec>& counters, std::int64_t count,
                        const std::map<std::string, std::string>& metadata) {
  std::vector<TensorSpec> specs = counters;
  std::size_t largest = 0;
  for (const ArenaView& arena : arenas) {
    for (const Parameter& parameter : layout.parameters) {
      if (!is_in(arena.suffix, parameter)) continue;
      specs.push_back({tensor_name(parameter, arena.suffix), parameter.shape});
      largest = std::max(largest, parameter.count);
    }
  }
  DurableFile file(path);
  file.write(safetensors_header(specs, metadata));
  for (std::size_t i = 0; i < counters.size(); ++i) file.write(std::as_bytes(std::span(&count, 1)));
  std::vector<float> values(largest);
  for (const ArenaView& arena : arenas) {
    for (const Parameter& parameter : layout.parameters) {
      if (!is_in(arena.suffix, parameter)) continue;
      const auto out = std::span(values).first(parameter.count);
      export_parameter(parameter, arena.values, out);
      file.write(std::as_bytes(out));
    }
  }
  return file.finish();
}

std::vector<std::byte> read_verified(const std::filesystem::path& path, const FileDigest& digest) {
  std::vector<std::byte> bytes = read_whole(path, digest.bytes);
  if (bytes.size() != digest.bytes) {
    throw DataError(fmt::format("{}: cut short: {} bytes, but {} were written", path.string(),
                                bytes.size(), digest.bytes));
  }
  if (crc32_of(bytes) != digest.crc32) {
    throw DataError(fmt::format("{}: damaged (its checksum does not match)", path.string()));
  }
  return bytes;
}

void read_arena(const std::filesystem::path& path, std::span<const std::byte> bytes,
                const SafetensorsTable& table, const CheckpointLayout& layout,
                const std::string& suffix, std::span<float> arena) {
  std::vector<float> values;
  for (const Parameter& parameter : layout.parameters) {
    if (!is_in(suffix, parameter)) continue;
    const std::string name = tensor_name(parameter, suffix);
    const auto entry = std::find_if(table.tensors.begin(), table.tensors.end(),
                                    [&](const TensorEntry& row) { return row.name == name; });
    if (entry == table.tensors.end() || entry->dtype != "F32" || entry->shape != parameter.shape) {
      throw DataError(fmt::format("{}: no tensor {} of the model's type and shape (another model?)",
                                  path.string(), name));
    }
    const auto source = bytes.subspan(entry->begin, entry->end - entry->begin);
    values.resize(parameter.count);
    std::copy(source.begin(), source.end(), std::as_writable_bytes(std::span(values)).begin());
    import_parameter(parameter, values, arena);
  }
}

const FileDigest& digest_of(const std::vector<FileDigest>& files, const std::string& name,
                            const std::filesystem::path& directory) {
  for (const FileDigest& file : files) {
    if (file.name == name) return file;
  }
  throw DataError(fmt::format("{}: does not mention {}", (directory / kStateFile).string(), name));
}

std::pair<TrainingState, std::vector<FileDigest>> read_state_and_digests(
    const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kStateFile;
  const std::vector<std::byte> bytes = read_whole(path, kStateBytesMax);
  return parse_state(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                     path.string());
}

}  // namespace

Snapshot::Snapshot(const CheckpointLayout& layout) : parameters(layout.arena_size) {
  for (std::size_t i = 0; i < layout.moments.size(); ++i) moments.emplace_back(layout.arena_size);
}

void write_checkpoint(const std::filesystem::path& directory, const CheckpointLayout& layout,
                      const Snapshot& snapshot) {
  DDPRUN_ASSERT(snapshot.moments.size() == layout.moments.size(), "one arena for each moment");
  std::map<std::string, std::string> metadata = layout.metadata;
  metadata["format"] = kPyTorchFormat;
  std::vector<FileDigest> files;
  files.push_back(
      write_arenas(directory / kModelFile, layout,
                   {{.suffix = "", .values = snapshot.parameters.span()}}, batch_counters(layout),
                   static_cast<std::int64_t>(snapshot.state.step_state.updates), metadata));
  std::vector<ArenaView> moments;
  for (std::size_t i = 0; i < layout.moments.size(); ++i) {
    moments.push_back({.suffix = layout.moments[i], .values = snapshot.moments[i].span()});
  }
  files.push_back(write_arenas(directory / kOptimizerFile, layout, moments, {}, 0,
                               {{"format", kPyTorchFormat}}));

  if (!layout.vocabulary.empty()) {
    DurableFile vocabulary(directory / layout.vocabulary_file);
    vocabulary.write(layout.vocabulary);
    files.push_back(vocabulary.finish());
  }

  DurableFile state(directory / kStateFile);
  state.write(to_json(snapshot.state, files));
  state.finish();
  sync_directory(directory);
}

TrainingState read_state(const std::filesystem::path& directory) {
  return read_state_and_digests(directory).first;
}

Snapshot read_checkpoint(const std::filesystem::path& directory, const CheckpointLayout& layout) {
  auto [state, files] = read_state_and_digests(directory);
  Snapshot snapshot(layout);
  snapshot.state = std::move(state);

  {
    // One file in memory at a time.
    const std::filesystem::path path = directory / kModelFile;
    const auto model = read_verified(path, digest_of(files, kModelFile, directory));
    read_arena(path, model, parse_safetensors(model, path.string()), layout, "",
               snapshot.parameters.span());
  }

  // It has the words of this run, or the checkpoint would be of another data set; but it may be
  // damaged.
  if (!layout.vocabulary.empty())
    read_verified(directory / layout.vocabulary_file,
                  digest_of(files, layout.vocabulary_file, directory));

  const std::filesystem::path optimizer_path = directory / kOptimizerFile;
  const auto optimizer = read_verified(optimizer_path, digest_of(files, kOptimizerFile, directory));
  const SafetensorsTable table = parse_safetensors(optimizer, optimizer_path.string());
  for (std::size_t i = 0; i < layout.moments.size(); ++i) {
    read_arena(optimizer_path, optimizer, table, layout, layout.moments[i],
               snapshot.moments[i].span());
  }
  return snapshot;
}

void verify_model(const std::filesystem::path& directory) {
  for (const FileDigest& file : read_state_and_digests(directory).second)
    if (file.name == kModelFile || file.name == kVocabularyFile || file.name == kPieceModelFile)
      read_verified(directory / file.name, file);
}

}  // namespace ddprun::trainer
