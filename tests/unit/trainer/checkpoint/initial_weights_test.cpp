// Initial weights from a file: by name, strictly, and what may be left out.
#include "trainer/checkpoint/initial_weights.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "tests/support/temp_dir.hpp"
#include "tests/unit/trainer/checkpoint/fixture.hpp"
#include "trainer/checkpoint/safetensors.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using Names = std::vector<std::string>;

/// A tensor to be written, of any type, filled with `bytes`.
struct AnyTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

std::string bytes_of(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

AnyTensor floats(const std::string& name, std::vector<std::int64_t> shape, float first) {
  std::size_t count = 1;
  for (const std::int64_t side : shape) count *= static_cast<std::size_t>(side);
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(first + static_cast<float>(i));
  return {name, "F32", std::move(shape), bytes_of(values)};
}

AnyTensor counter(const std::string& name) { return {name, "I64", {}, std::string(8, '\1')}; }

std::string file_with(const std::vector<AnyTensor>& tensors) {
  std::string json;
  std::string data;
  for (const AnyTensor& tensor : tensors) {
    std::string shape;
    for (const std::int64_t side : tensor.shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(side);
    }
    json += (json.empty() ? "{\"" : ",\"") + tensor.name + R"(":{"dtype":")" + tensor.dtype +
            R"(","shape":[)" + shape + R"(],"data_offsets":[)" + std::to_string(data.size()) + "," +
            std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data += tensor.bytes;
  }
  json += "}";
  std::string length;
  for (std::size_t i = 0; i < 8; ++i) length.push_back(static_cast<char>(json.size() >> (8 * i)));
  return length + json + data;
}

/// What load_weights makes of such a file for the small model of fixture.hpp.
struct Loading {
  test::TempDir directory;
  std::vector<Parameter> parameters = test::small_layout().parameters;
  std::vector<float> arena = std::vector<float>(48, -1.0F);

  LeftOut load(const std::vector<AnyTensor>& tensors, const Names& skip = {}) {
    test::write_text(directory / "m.safetensors", file_with(tensors));
    return load_weights(directory / "m.safetensors", parameters, skip, arena);
  }
};

const AnyTensor kBias = floats("fc.bias", {5}, 10);
const AnyTensor kKernel = floats("conv.weight", {2, 3, 2, 2}, 100);

TEST_CASE("parameters are taken by name, from PyTorch's order to the arena's") {
  Loading loading;
  const LeftOut left_out = loading.load({kKernel, kBias});
  CHECK(left_out.kept.empty());
  CHECK(left_out.unused.empty());
  CHECK(loading.arena[0] == 10);
  CHECK(loading.arena[4] == 14);
  CHECK(loading.arena[5] == -1);  // padding
  // Channels last: output 0, row 0, column 0 has inputs 0, 1, 2, which PyTorch keeps 4 apart.
  CHECK(loading.arena[16] == 100);
  CHECK(loading.arena[17] == 104);
  CHECK(loading.arena[18] == 108);
  CHECK(loading.arena[19] == 101);
  CHECK(loading.arena[39] == 123);
}

TEST_CASE("halves and bfloat16s are taken as the floats that they are") {
  Loading loading;
  const AnyTensor halves{"fc.bias", "F16", {5}, std::string("\0\x3c\1\0\0\x78\0\xc0\0\0", 10)};
  AnyTensor kernel{"conv.weight", "BF16", {2, 3, 2, 2}, ""};
  for (int i = 0; i < 24; ++i) kernel.bytes += std::string("\x80\x3f", 2);
  loading.load({halves, kernel});
  CHECK(loading.arena[0] == 1.0F);
  CHECK(loading.arena[1] == 0x1p-24F);
  CHECK(loading.arena[2] == 32768.0F);
  CHECK(loading.arena[3] == -2.0F);
  for (std::size_t i = 16; i < 40; ++i) CHECK(loading.arena[i] == 1.0F);
}

TEST_CASE("what does not match is refused with both shapes and the prefix to skip") {
  Loading loading;
  const auto refused = [&](const std::vector<AnyTensor>& tensors) {
    try {
      loading.load(tensors);
    } catch (const DataError& error) {
      CHECK_THAT(error.what(), Contains("--init-from=") && Contains("m.safetensors: "));
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  CHECK_THAT(refused({kKernel, floats("fc.bias", {7}, 0)}),
             Contains("fc.bias is [7] there, but [5] in the model: give a file of this model, or "
                      "--init-skip=fc. to leave that out"));
  CHECK_THAT(refused({kBias, floats("conv.weight", {2, 2, 2, 3}, 0)}),
             Contains("conv.weight is [2, 2, 2, 3] there, but [2, 3, 2, 2] in the model") &&
                 Contains("--init-skip=conv."));
  CHECK_THAT(refused({kBias}), Contains("no tensor conv.weight there; it is [2, 3, 2, 2] in the "
                                        "model: ") &&
                                   Contains("--init-skip=conv."));
  CHECK_THAT(refused({kBias, kKernel, floats("head", {3}, 0)}),
             Contains("head [3] is there, but not in the model") && Contains("--init-skip=head "));
  CHECK_THAT(refused({kKernel, {"fc.bias", "F64", {5}, std::string(40, '\0')}}),
             Contains("fc.bias is F64 [5] there, which is none of F32, F16 and BF16, and [5] in "
                      "the model"));
  CHECK_THAT(refused({floats("a", {1}, 0), floats("b", {1}, 0)}),
             Contains("no tensor fc.bias there") && Contains("(and 3 more, listed above)"));
}

TEST_CASE("of several that do not match all are listed, of one none") {
  Loading loading;
  const auto listed = [&](const std::vector<AnyTensor>& tensors) {
    try {
      loading.load(tensors);
    } catch (const WeightMismatch& error) {
      return error.all();
    }
    return Names{"not refused"};
  };
  CHECK(listed({kKernel, floats("fc.bias", {7}, 0)}).empty());
  CHECK(listed({floats("a", {1}, 0), floats("conv.weight", {7}, 0), floats("b", {1, 2}, 0)}) ==
        Names{"no tensor fc.bias there; it is [5] in the model",
              "conv.weight is [7] there, but [2, 3, 2, 2] in the model",
              "a [1] is there, but not in the model", "b [1, 2] is there, but not in the model"});
  std::vector<AnyTensor> many{kKernel};
  for (int i = 0; i < 2'500; ++i) many.push_back(floats("t" + std::to_string(i), {1}, 0));
  const Names all = listed(many);
  CHECK(all.size() == 2'001);
  CHECK(all.back() == "and 501 more");  // with the other parameter
  many.erase(many.begin());
  const Names other = listed(many);  // nothing fits: it is of another model
  CHECK(other.size() == 9);
  CHECK(other.back() == "and 2494 more");
}

TEST_CASE("a file of another model is refused with the options of its run, where it has them") {
  Loading loading;
  const auto refused = [&](const std::string& metadata, const char* file = "m.safetensors") {
    std::string bytes = file_with({floats("other", {1}, 0)});
    if (!metadata.empty()) {
      const std::string row = R"("__metadata__":)" + metadata + ",";
      bytes.insert(9, row);
      bytes[0] = static_cast<char>(bytes[0] + static_cast<char>(row.size()));
    }
    test::write_text(loading.directory / file, bytes);
    try {
      load_weights(loading.directory / file, loading.parameters, {}, loading.arena);
    } catch (const WeightMismatch& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  using Catch::Matchers::EndsWith;
  CHECK_THAT(refused(""), EndsWith("it is of another model: give a file of this one"));
  CHECK_THAT(
      refused(R"({"model":"resnet18","stem":"small"})"),
      EndsWith(
          "a run with --model=resnet18 --stem=small: give these options, or a file of this model"));
  CHECK_THAT(refused(R"({"model":"unet16","stem":"small","decoder":"deconv"})"),
             EndsWith("a run with --model=unet16 --decoder=deconv: give these options, or a file "
                      "of this model"));
  CHECK_THAT(refused("", "optim.safetensors"), EndsWith("give model.safetensors beside it"));
}

TEST_CASE("of weights that are evaluated nothing can be left out, and the tensors are not listed") {
  Loading loading;
  test::write_text(loading.directory / "m.safetensors", file_with({kKernel}));
  try {
    load_weights(loading.directory / "m.safetensors", loading.parameters, {}, loading.arena,
                 WeightsUse::evaluation);
    FAIL("not refused");
  } catch (const WeightMismatch& error) {
    CHECK_THAT(error.what(), Catch::Matchers::StartsWith("--resume-from=") &&
                                 Contains("no tensor fc.bias there") && !Contains("--init-skip"));
    CHECK(error.all().empty());
  }
}

TEST_CASE("a prefix leaves out parameters and tensors, and both are listed") {
  Loading loading;
  const LeftOut left_out = loading.load(
      {kKernel, floats("fc.bias", {7}, 0), floats("head.a", {1}, 0), floats("head.b", {1}, 0)},
      {"fc.", "head"});
  CHECK(left_out.kept == Names{"fc.bias"});
  CHECK(left_out.unused == Names{"fc.bias", "head.a", "head.b"});
  CHECK(loading.arena[0] == -1);
  CHECK(loading.arena[16] == 100);
  CHECK_THROWS_WITH(loading.load({kKernel, kBias, floats("head", {1}, 0)}, {"fc."}),
                    Contains("head [1] is there"));
}

TEST_CASE("a prefix that no name begins with is refused") {
  Loading loading;
  CHECK_THROWS_WITH(loading.load({kKernel, kBias}, {"fc.", "head."}),
                    Contains("--init-skip=head.: no name begins with it, neither in ") &&
                        Contains("m.safetensors nor in the model"));
}

TEST_CASE("prefixes that leave nothing of a file are refused") {
  Loading loading;
  CHECK_THROWS_WITH(loading.load({kKernel, kBias}, {"fc", "conv"}),
                    Contains("--init-skip leaves nothing of it"));
}

TEST_CASE("the counters of PyTorch's batch norm make no file unusable") {
  Loading loading;
  const LeftOut left_out = loading.load(
      {kKernel, counter("num_batches_tracked"), kBias, counter("bn.num_batches_tracked")});
  CHECK(left_out.unused.empty());
  CHECK(loading.arena[0] == 10);
  CHECK_THROWS_WITH(loading.load({kKernel, kBias, counter("bn.batches")}),
                    Contains("bn.batches [] is there"));
  CHECK_THROWS_WITH(loading.load({kKernel, kBias, floats("bn.num_batches_tracked", {1}, 0)}),
                    Contains("bn.num_batches_tracked [1] is there"));
}

TEST_CASE("what to skip is the full name where a prefix would leave out what matches") {
  Loading loading;
  loading.parameters[1].name = "fc.weight";
  AnyTensor kernel = kKernel;
  kernel.name = "fc.weight";
  CHECK_THROWS_WITH(loading.load({kernel, kBias, floats("fc.scale", {1}, 0)}),
                    Contains("fc.scale [1] is there, but not in the model: ") &&
                        Contains("--init-skip=fc.scale to leave"));
  CHECK_THROWS_WITH(loading.load({kernel, floats("fc.bias", {7}, 0)}),
                    Contains("--init-skip=fc.bias to leave"));
  CHECK_THROWS_WITH(loading.load({kernel}), Contains("--init-skip=fc.bias to leave"));
  const LeftOut left_out = loading.load({kernel, kBias, floats("fc.scale", {1}, 0)}, {"fc.scale"});
  CHECK(left_out.kept.empty());
  CHECK(left_out.unused == Names{"fc.scale"});
}

TEST_CASE("the numbers of positions in files of transformers make no file unusable") {
  Loading loading;
  const AnyTensor positions{"a.embeddings.position_ids", "I64", {1, 3}, std::string(24, '\1')};
  CHECK(loading.load({kKernel, kBias, positions}).unused.empty());
  CHECK_THROWS_WITH(loading.load({kKernel, kBias, floats("a.position_ids", {3}, 0)}),
                    Contains("a.position_ids [3] is there"));
}

TEST_CASE("a file of a wrapped model is refused with what to save instead") {
  Loading loading;
  const auto wrapped = [](AnyTensor tensor) {
    tensor.name = "module." + tensor.name;
    return tensor;
  };
  CHECK_THROWS_WITH(
      loading.load({wrapped(kKernel), wrapped(kBias), wrapped(counter("bn.num_batches_tracked"))}),
      Contains("m.safetensors: all names there begin with module., as a wrapper's such as "
               "DistributedDataParallel do, but the model's do not: save the model inside, "
               "model.module.state_dict()"));
  CHECK_THROWS_WITH(loading.load({wrapped(kKernel), kBias}),
                    Contains("no tensor conv.weight there"));
}

TEST_CASE("a tensor with an inf or nan is refused by name, unless it is left out") {
  Loading loading;
  AnyTensor bias = kBias;
  const auto wrong = GENERATE(as<std::string>{}, "nan", "inf", "-inf");
  const float value = std::stof(wrong);
  bias.bytes.replace(3 * sizeof value, sizeof value, bytes_of({value}));
  CHECK_THROWS_WITH(loading.load({kKernel, bias}),
                    Contains("m.safetensors: fc.bias holds " + wrong + " (element 3 of 5): ") &&
                        Contains("--init-skip=fc.bias to leave that out"));
  CHECK(loading.load({kKernel, bias}, {"fc.bias"}).kept == Names{"fc.bias"});
}

TEST_CASE("three dozen names are listed, then the number of the others") {
  CHECK(shown_names({}) == "none");
  CHECK(shown_names({"a", "b"}) == "a, b");
  Names names(35, "a");
  names.emplace_back("last");
  CHECK_THAT(shown_names(names), Catch::Matchers::EndsWith("a, a, last"));
  names.emplace_back("b");
  names.emplace_back("c");
  CHECK_THAT(shown_names(names), Catch::Matchers::EndsWith("a, a, last and 2 more"));
  CHECK(shown_names({"a\nb"}) == "a\\nb");
}

TEST_CASE("a file that cannot be read is named with the reason") {
  Loading loading;
  const auto load = [&](const std::filesystem::path& path) {
    return load_weights(path, loading.parameters, {}, loading.arena);
  };
  CHECK_THROWS_WITH(load(loading.directory / "none"),
                    Contains("--init-from=") && Contains("none: No such file"));
  CHECK_THROWS_WITH(load(loading.directory.path()),
                    Contains("a directory") && Contains("model.safetensors"));
  const auto pipe = loading.directory / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(load(pipe), Contains("not a file with tensors"));
  const auto whole = file_with({kKernel, kBias});
  for (std::size_t size = 0; size < whole.size(); size += 5) {
    test::write_text(loading.directory / "cut", whole.substr(0, size));
    CHECK_THROWS_WITH(load(loading.directory / "cut"),
                      Contains("cut: not a safetensors file, or not a whole one"));
  }
}

TEST_CASE("a file that becomes shorter while it is read is refused") {
  Loading loading;
  const auto path = loading.directory / "m.safetensors";
  test::write_text(path, file_with({kKernel, kBias}));
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const TensorEntry& last = file.table().tensors.back();
  std::vector<std::byte> bytes(last.end - last.begin);
  CHECK_THROWS_WITH(file.read(last, bytes), Contains("became shorter"));
}

}  // namespace
}  // namespace ddprun::trainer
