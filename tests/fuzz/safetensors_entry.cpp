#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.hpp"
#include "tests/fuzz/entries.hpp"
#include "tests/fuzz/error_line.hpp"
#include "trainer/checkpoint/initial_weights.hpp"
#include "trainer/checkpoint/safetensors.hpp"
#include "trainer/error.hpp"

namespace ddprun::test {
namespace {

using namespace trainer;

/// A header's JSON with its length before it and so many bytes of data behind it.
std::string whole_file(std::string_view json, std::size_t data_bytes) {
  std::string bytes;
  for (std::size_t i = 0; i < kSafetensorsLengthBytes; ++i) {
    bytes.push_back(static_cast<char>(json.size() >> (8 * i) & 0xff));
  }
  return bytes.append(json).append(data_bytes, '\x7f');
}

void check_message(const DataError& error) {
  check_error_line(error.what());
  const auto* const mismatch = dynamic_cast<const WeightMismatch*>(&error);
  if (mismatch == nullptr) return;
  DDPRUN_ASSERT(mismatch->all().size() != 1, "the only one is in the message");
  for (const std::string& line : mismatch->all()) check_error_line(line);
}

void check_table(const SafetensorsTable& table, std::span<const std::byte> file) {
  std::set<std::string_view> names;
  std::uint64_t end = safetensors_header_bytes(file, file.size(), "file");
  for (const TensorEntry& tensor : table.tensors) {
    DDPRUN_ASSERT(names.insert(tensor.name).second, "each name is there once");
    DDPRUN_ASSERT(tensor.begin <= tensor.end && tensor.end <= file.size(),
                  "ranges are in the file");
    DDPRUN_ASSERT(tensor.begin == end, "no holes, no overlaps, from the header on");
    DDPRUN_ASSERT(tensor.shape.size() <= kSafetensorsRankMax, "a shape has its limit");
    end = tensor.end;
  }
  DDPRUN_ASSERT(end == file.size(), "the tensors are all of the data");
}

/// The model that the corpus knows, with two parameters.
std::vector<Parameter> parameters_of_model() {
  const auto parameter = [](const char* name, std::vector<std::int64_t> shape, std::size_t offset,
                            std::size_t count) {
    return Parameter{.name = name,
                     .shape = std::move(shape),
                     .layout = ParameterLayout::as_pytorch,
                     .offset = offset,
                     .count = count,
                     .decay = true};
  };
  return {parameter("fc.weight", {2, 3}, 0, 6), parameter("fc.bias", {2}, 16, 2)};
}

/// Whether it was saved from a wrapper of that model.
bool is_wrapped(const SafetensorsTable& table) {
  const auto begins = [](const TensorEntry& tensor) { return tensor.name.starts_with("module."); };
  const auto is_of_model = [](const TensorEntry& tensor) {
    return tensor.name == "module.fc.weight" || tensor.name == "module.fc.bias";
  };
  return std::all_of(table.tensors.begin(), table.tensors.end(), begins) &&
         std::any_of(table.tensors.begin(), table.tensors.end(), is_of_model);
}

void check_match(const SafetensorsTable& table, const std::string& bytes,
                 const std::vector<std::string>& skip) {
  const std::vector<Parameter> parameters = parameters_of_model();
  const WeightMatch match = match_weights(table, parameters, skip, "file");
  DDPRUN_ASSERT(!is_wrapped(table), "a wrapped model is refused");
  DDPRUN_ASSERT(match.pairs.size() + match.kept.size() == parameters.size(),
                "each parameter is taken or kept");
  for (const auto& [parameter, tensor] : match.pairs) {
    DDPRUN_ASSERT(parameter->name == tensor->name && parameter->shape == tensor->shape,
                  "what is taken fits");
    const auto source = std::as_bytes(std::span(bytes)).subspan(tensor->begin);
    std::vector<float> values(parameter->count);
    to_floats(tensor->dtype, source.first(tensor->end - tensor->begin), values);
  }
}

}  // namespace

void fuzz_safetensors(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t data_bytes = data[0];
  const std::string bytes = data_bytes == 0 ? std::string(rest) : whole_file(rest, data_bytes);
  SafetensorsTable table;
  try {
    table = parse_safetensors(std::as_bytes(std::span(bytes)), "file");
  } catch (const DataError& error) {
    return check_message(error);
  }
  check_table(table, std::as_bytes(std::span(bytes)));
  for (const auto& skip : {std::vector<std::string>{}, std::vector<std::string>{"fc.b", "head"}}) {
    try {
      check_match(table, bytes, skip);
    } catch (const DataError& error) {
      check_message(error);
      DDPRUN_ASSERT(!is_wrapped(table) || std::string_view(error.what()).ends_with("state_dict()"),
                    "the message about a wrapped model has the remedy");
    }
  }
}

}  // namespace ddprun::test
