// The files of one checkpoint: layouts, bit-exact reading, and each kind of damage named.
#include "trainer/checkpoint/checkpoint_files.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <system_error>

#include "tests/support/temp_dir.hpp"
#include "tests/unit/trainer/checkpoint/fixture.hpp"
#include "trainer/checkpoint/durable_file.hpp"
#include "trainer/checkpoint/safetensors.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;

bool same(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

TEST_CASE("a checkpoint is read back bit for bit") {
  const test::TempDir directory;
  const CheckpointLayout layout = test::small_layout();
  const Snapshot written = test::small_snapshot(layout, 5);
  write_checkpoint(directory.path(), layout, written);
  const Snapshot read = read_checkpoint(directory.path(), layout);
  CHECK(same(read.parameters.span(), written.parameters.span()));
  CHECK(same(read.moments[0].span(), written.moments[0].span()));
  CHECK(same(read.moments[1].span(), written.moments[1].span()));
  CHECK(read.state.step == 5);
}

TEST_CASE("model.safetensors has PyTorch's names, shapes and element order") {
  const test::TempDir directory;
  const CheckpointLayout layout = test::small_layout();
  const Snapshot snapshot = test::small_snapshot(layout, 0);
  write_checkpoint(directory.path(), layout, snapshot);
  const auto bytes = read_whole(directory / kModelFile, 1 << 20);
  const SafetensorsTable table = parse_safetensors(bytes, "m");
  CHECK(table.metadata.at("format") == "pt");
  CHECK(table.metadata.at("model") == "small");
  const auto conv = std::find_if(table.tensors.begin(), table.tensors.end(),
                                 [](const TensorEntry& row) { return row.name == "conv.weight"; });
  REQUIRE(conv != table.tensors.end());
  CHECK(conv->shape == std::vector<std::int64_t>{2, 3, 2, 2});
  std::vector<float> values(24);
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(conv->begin),
            bytes.begin() + static_cast<std::ptrdiff_t>(conv->end),
            std::as_writable_bytes(std::span(values)).begin());
  // Output 1, input 2, row 0, column 1 in PyTorch's order; in the arena O, H, W, I.
  CHECK(values[((1 * 3 + 2) * 2 + 0) * 2 + 1] ==
        snapshot.parameters.span()[16 + ((1 * 2 + 0) * 2 + 1) * 3 + 2]);
}

TEST_CASE("each kind of damage to a checkpoint names the file") {
  const test::TempDir directory;
  const CheckpointLayout layout = test::small_layout();
  write_checkpoint(directory.path(), layout, test::small_snapshot(layout, 5));
  const auto read = [&] { return read_checkpoint(directory.path(), layout); };
  SECTION("model cut short") {
    std::filesystem::resize_file(directory / kModelFile, 100);
    CHECK_THROWS_WITH(read(), Contains("model.safetensors: cut short: 100 bytes"));
  }
  SECTION("optimizer cut short") {
    std::filesystem::resize_file(directory / kOptimizerFile, 9);
    CHECK_THROWS_WITH(read(), Contains("optim.safetensors: cut short: 9 bytes"));
  }
  SECTION("one bit of the model turned") {
    std::string text = test::read_text(directory / kModelFile);
    text[text.size() - 3] = static_cast<char>(text[text.size() - 3] ^ 4);
    test::write_text(directory / kModelFile, text);
    CHECK_THROWS_WITH(read(), Contains("model.safetensors: damaged"));
  }
  SECTION("model grown") {
    test::write_text(directory / kModelFile, test::read_text(directory / kModelFile) + "x");
    CHECK_THROWS_WITH(read(), Contains("model.safetensors"));
  }
  SECTION("model missing") {
    std::filesystem::remove(directory / kModelFile);
    CHECK_THROWS_WITH(read(), Contains("model.safetensors: No such file"));
  }
  SECTION("state cut short") {
    std::filesystem::resize_file(directory / kStateFile, 50);
    CHECK_THROWS_WITH(read(), Contains("state.json: not JSON"));
  }
  SECTION("state missing") {
    std::filesystem::remove(directory / kStateFile);
    CHECK_THROWS_WITH(read(), Contains("state.json: No such file"));
  }
  SECTION("a directory in the place of a file") {
    std::filesystem::remove(directory / kModelFile);
    std::filesystem::create_directory(directory / kModelFile);
    CHECK_THROWS_WITH(read(), Contains("not a regular file"));
  }
}

TEST_CASE("the vocabulary lies beside the model, and its damage is found") {
  const test::TempDir directory;
  CheckpointLayout layout = test::small_layout();
  layout.vocabulary = "<s>\nfilm\n";
  write_checkpoint(directory.path(), layout, test::small_snapshot(layout, 5));
  const auto bytes = read_whole(directory / kVocabularyFile, 100);
  CHECK(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == "<s>\nfilm\n");
  CHECK(read_checkpoint(directory.path(), layout).state.step == 5);
  SECTION("changed") {
    std::ofstream(directory / kVocabularyFile) << "<s>\nfils\n";
    CHECK_THROWS_WITH(read_checkpoint(directory.path(), layout),
                      Contains("vocabulary.txt: damaged"));
  }
  SECTION("missing") {
    std::filesystem::remove(directory / kVocabularyFile);
    CHECK_THROWS_WITH(read_checkpoint(directory.path(), layout), Contains("vocabulary.txt"));
  }
}

TEST_CASE("running statistics are PyTorch's buffers: with a counter, and without moments") {
  const test::TempDir directory;
  CheckpointLayout layout = test::small_layout();
  layout.parameters[0].name = "bn.running_mean";
  layout.parameters[0].role = ParameterRole::statistic;
  Snapshot snapshot = test::small_snapshot(layout, 5);
  snapshot.state.step_state.updates = 1234;
  write_checkpoint(directory.path(), layout, snapshot);
  const auto table_of = [&](const char* file) {
    const std::string bytes = test::read_text(directory / file);
    return std::pair{parse_safetensors(std::as_bytes(std::span(bytes)), file), bytes};
  };
  const auto [model, bytes] = table_of(kModelFile);
  REQUIRE(model.tensors.size() == 3);
  CHECK(model.tensors[0].name == "bn.num_batches_tracked");
  CHECK(model.tensors[0].dtype == "I64");
  CHECK(model.tensors[0].shape.empty());
  CHECK(model.tensors[0].begin % 8 == 0);
  std::int64_t count = 0;
  std::memcpy(&count, bytes.data() + model.tensors[0].begin, sizeof count);
  CHECK(count == 1234);
  const auto optimizer = table_of(kOptimizerFile).first;
  REQUIRE(optimizer.tensors.size() == 2);
  CHECK(optimizer.tensors[0].name == "conv.weight.exp_avg");

  const Snapshot read = read_checkpoint(directory.path(), layout);
  CHECK(read.parameters.span()[4] == snapshot.parameters.span()[4]);
  CHECK(read.moments[0].span()[4] == 0);
  CHECK(read.moments[0].span()[20] == snapshot.moments[0].span()[20]);
}

TEST_CASE("a checkpoint of another model is recognised by its tensors") {
  const test::TempDir directory;
  CheckpointLayout layout = test::small_layout();
  write_checkpoint(directory.path(), layout, test::small_snapshot(layout, 5));
  SECTION("name") { layout.parameters[0].name = "other.bias"; }
  SECTION("shape") { layout.parameters[0].shape = {5, 1}; }
  SECTION("moments") { layout.moments[0] = "momentum_buffer"; }
  CHECK_THROWS_WITH(read_checkpoint(directory.path(), layout), Contains("another model?"));
}

TEST_CASE("writing over an existing file or into nowhere is an error that names it") {
  const test::TempDir directory;
  const CheckpointLayout layout = test::small_layout();
  const Snapshot snapshot = test::small_snapshot(layout, 1);
  test::write_text(directory / kModelFile, "precious");
  CHECK_THROWS_WITH(write_checkpoint(directory.path(), layout, snapshot),
                    Contains(kModelFile) && Contains("File exists"));
  CHECK(test::read_text(directory / kModelFile) == "precious");
  CHECK_THROWS_WITH(write_checkpoint(directory / "nowhere", layout, snapshot),
                    Contains("No such file"));
}

}  // namespace
}  // namespace ddprun::trainer
