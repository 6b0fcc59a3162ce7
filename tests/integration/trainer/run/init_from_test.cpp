// Initial weights from a file: a run begins where another one ended, whatever its world size, and a
// file that does not fit is refused in one line.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <limits>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

using Arguments = std::vector<std::string>;
using Catch::Matchers::Contains;

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// Copies the tensors with one under another name: `from` and `to` are equally long.
void rename_tensor(const fs::path& source, const fs::path& target, const std::string& from,
                   const std::string& to) {
  REQUIRE(from.size() == to.size());
  std::string bytes = text_of(source);
  const std::size_t at = bytes.find('"' + from + '"');
  REQUIRE(at != std::string::npos);
  bytes.replace(at + 1, to.size(), to);
  std::ofstream(target, std::ios::binary) << bytes;
}

/// A run that has ended, and its weights.
struct FirstRun {
  SmallData data;
  TempDir directory;
  std::string line =
      train({.world_size = 2,
             .arguments = three_epochs(data, {"--out", directory / "first", "--lr", "0.1"})});
  fs::path file = directory / "first" / "latest" / "model.safetensors";

  /// A run that starts from a file, and changes nothing: its rate is 0.
  Arguments unchanged(const fs::path& from) const {
    return three_epochs(data, {"--init-from", from, "--lr", "0", "--checkpoint-every", "off"});
  }
  ChildResult run(const Arguments& arguments, bool json = true) const {
    WorkerGroup group({.arguments = arguments, .json = json});
    return group.wait()[0];
  }
};

}  // namespace

TEST_CASE("a run from another's file begins with its weights and its loss") {
  const FirstRun first;
  for (const int world_size : {1, 2}) {
    const std::string line =
        train({.world_size = world_size, .arguments = first.unchanged(first.file)});
    CHECK(field(line, "weights") == field(first.line, "weights"));
    CHECK(field(line, "test_loss") == field(first.line, "test_loss"));
    CHECK(field(line, "test_accuracy") == field(first.line, "test_accuracy"));
  }
  const ChildResult result = first.run(first.unchanged(first.file), false);
  CHECK_THAT(result.out, Contains("initial weights from " + first.file.string() + " (hash " +
                                  field(first.line, "weights") + ")\n"));
}

TEST_CASE("a resumed run does not use the file, and another file is another run") {
  const FirstRun first;
  const std::string out = first.directory / "out";
  const auto arguments = [&](const fs::path& file, const std::string& steps) {
    return three_epochs(first.data, {"--init-from", file, "--out", out, "--max-steps", steps,
                                     "--resume", "strict"});
  };
  const std::string whole =
      weights({.arguments = three_epochs(
                   first.data, {"--init-from", first.file, "--checkpoint-every", "off"})});
  train({.world_size = 2, .arguments = arguments(first.file, "5")});
  CHECK_THAT(text_of(fs::path(out) / "latest" / "state.json"),
             Contains("\"init_from\": \"" + field(first.line, "weights") + "\"") &&
                 Contains("\"best_metric\": \"test_accuracy\"") &&
                 Contains("\"best_is\": \"largest\""));

  const fs::path copy = first.directory / "copy.safetensors";
  fs::copy_file(first.file, copy);
  const ChildResult resumed = first.run(arguments(copy, "7"), false);
  CHECK(resumed.status == 0);
  CHECK_THAT(resumed.out, Contains("--init-from was not used") && Contains("from step 5 of ") &&
                              !Contains("initial weights from"));
  CHECK(weights({.world_size = 4, .arguments = arguments(copy, "24")}) == whole);

  const fs::path other = fs::path(out) / "latest" / "model.safetensors";
  const ChildResult refused = first.run(arguments(other, "24"));
  CHECK(refused.status == 2);
  CHECK_THAT(refused.err, Contains("another run: --init-from " + copy.string() + " (") &&
                              Contains(") there, " + other.string() + " ("));
  const ChildResult seeded =
      first.run(three_epochs(first.data, {"--out", out, "--resume", "strict"}));
  CHECK(seeded.status == 2);
  CHECK_THAT(seeded.err, Contains("--init-from " + copy.string()) &&
                             Contains("none here: give --init-from=" + copy.string()));
}

TEST_CASE("what --init-skip leaves out keeps its seeded values and is listed") {
  const FirstRun first;
  const fs::path renamed = first.directory / "renamed.safetensors";
  rename_tensor(first.file, renamed, "fc3.bias", "top.bias");
  const auto skipping = [&](const fs::path& file, const Arguments& more) {
    return with(first.unchanged(file), with({"--init-skip=fc3."}, more));
  };
  const ChildResult refused = first.run(skipping(renamed, {}));
  CHECK(refused.status == 2);
  CHECK_THAT(refused.err, Contains("top.bias [10] is there, but not in the model: ") &&
                              Contains("--init-skip=top. "));
  const ChildResult result = first.run(skipping(renamed, {"--init-skip=top."}), false);
  CHECK(result.status == 0);
  CHECK_THAT(result.out, Contains("; parameters that keep seeded values: fc3.weight, fc3.bias; "
                                  "tensors not used: fc3.weight, top.bias\n"));
  // The rest is the file's: another seed changes the result through fc3 alone, and no seed without.
  const auto seeded = [&](const fs::path& file, const std::string& seed, const Arguments& skip) {
    return weights({.arguments = with(with(first.unchanged(file), {"--seed", seed}), skip)});
  };
  const Arguments both{"--init-skip=fc3.", "--init-skip=top."};
  const Arguments one{"--init-skip=fc3."};
  CHECK(seeded(renamed, "1", both) != seeded(renamed, "2", both));
  CHECK(seeded(renamed, "1", both) == seeded(first.file, "1", one));
  CHECK(seeded(first.file, "1", {}) == seeded(first.file, "2", {}));
}

TEST_CASE("a file that does not fit ends with exit code 2 and the reason, and starts nothing") {
  const FirstRun first;
  const fs::path bad = first.directory / "bad.safetensors";
  std::string wanted;
  SECTION("another name") {
    rename_tensor(first.file, bad, "fc3.bias", "top.bias");
    wanted =
        "train:   no tensor fc3.bias there; it is [10] in the model\n"
        "train:   top.bias [10] is there, but not in the model\n"
        "train: --init-from=" +
        bad.string() +
        ": no tensor fc3.bias there; it is [10] in the model (and 1 more, listed "
        "above): give a file of this model, or --init-skip=fc3.bias to leave that "
        "out\n";
  }
  SECTION("another type") {
    std::string bytes = text_of(first.file);
    const std::size_t row = bytes.find("\"fc3.bias\"");
    bytes.replace(bytes.find("F32", row), 3, "I32");
    std::ofstream(bad, std::ios::binary) << bytes;
    wanted = "fc3.bias is I32 [10] there";
  }
  SECTION("cut short") {
    std::ofstream(bad, std::ios::binary) << text_of(first.file).substr(0, 5000);
    wanted = "not a safetensors file, or not a whole one";
  }
  SECTION("a header without end") {
    std::ofstream(bad, std::ios::binary) << std::string(64, '\xff');
    wanted = "a header of 18446744073709551615 bytes";
  }
  SECTION("a nan") {
    fill_tensor(first.file, bad, "fc3.weight", std::numeric_limits<float>::quiet_NaN());
    wanted =
        bad.string() + ": fc3.weight holds nan (element 0 of 840): give a file of sound weights";
  }
  SECTION("no file at all") { wanted = "--init-from=" + bad.string() + ": No such file"; }
  SECTION("a folder") {
    fs::create_directory(bad);
    wanted = "a directory: give the file";
  }
  const std::string out = first.directory / "second";
  const ChildResult result = first.run(with(first.unchanged(bad), {"--out", out}), false);
  INFO(result.err);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains(wanted));
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') ==
        std::max<std::ptrdiff_t>(1, std::count(wanted.begin(), wanted.end(), '\n')));
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("a loss that is no number before the first update is not blamed on the learning rate") {
  const FirstRun first;
  const fs::path huge = first.directory / "huge.safetensors";
  fill_tensor(first.file, huge, "fc3.weight", std::numeric_limits<float>::max());
  // Their sums overflow, though each is a number.
  const ChildResult result =
      first.run(three_epochs(first.data, {"--init-from", huge, "--checkpoint-every", "off"}));
  INFO(result.err);
  CHECK(result.status == 1);
  CHECK_THAT(result.err, Contains("the loss is not finite in step 1 (") &&
                             Contains("no update was made before it: look at this sample and the "
                                      "weights of --init-from; there is no checkpoint") &&
                             !Contains("--lr"));
}
