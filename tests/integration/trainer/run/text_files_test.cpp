// Training on texts in files: the same result for any number of workers, and a vocabulary that
// belongs to the run.
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/integration/trainer/run/worker_group.hpp"

using namespace ddprun::test;
namespace fs = std::filesystem;

namespace {

using Catch::Matchers::Contains;

/// Writes train.tsv and dev.tsv: short and long texts, two of 40 words. `word` is one of many.
void write_texts(const fs::path& folder, const std::string& word) {
  std::ofstream train(folder / "train.tsv");
  std::ofstream dev(folder / "dev.tsv");
  for (int i = 0; i < 26; ++i) {
    std::string text = i % 2 == 0 ? "good" : "bad";
    const int words = i < 2 ? 39 : i % 7;
    for (int k = 0; k < words; ++k) text += k % 3 == 0 ? " film" : " " + word;
    (i < 20 ? train : dev) << text << "\t" << i % 2 << "\n";
  }
}

std::vector<std::string> arguments(const TempDir& folder) {
  return {"--model=textclf", "--data", folder.path(), "--batch=2", "--epochs=2", "--max-tokens=32"};
}

ChildResult run_train(std::vector<std::string> command) {
  command.insert(command.begin(), program("train"));
  ChildOptions options;
  options.leave_stdin = true;
  return run(command, options);
}

}  // namespace

TEST_CASE("texts of files give the same weights and metrics for any number of workers") {
  const TempDir folder;
  write_texts(folder.path(), "plot");
  std::vector<std::string> command = arguments(folder);
  command.emplace_back("--tokens=bytes");
  check_world_sizes(command, "test_accuracy");
  command.back() = "--tokens=words";
  check_world_sizes(command, "test_accuracy");
}

TEST_CASE("a run goes on only with the words of its vocabulary, and warns once of cut texts") {
  const TempDir folder;
  const TempDir out;
  write_texts(folder.path(), "plot");
  std::vector<std::string> command = arguments(folder);
  command.insert(command.end(), {"--out", out.path(), "--max-steps=4"});
  const ChildResult first = run_train(command);
  CHECK(first.status == 0);
  CHECK_THAT(first.err, Contains("warning: 2 texts of the training set and 0 of the held-out set "
                                 "have more than 32 tokens: only the first 32 are used"));
  CHECK(first.err.find("warning") == first.err.rfind("warning"));
  CHECK(text_of(out.path() / "latest" / "vocabulary.txt") ==
        "<s>\n<pad>\n</s>\n<unk>\ngood\nfilm\nplot\nbad\n");

  command.back() = "--max-steps=6";
  const ChildResult second = run_train(command);
  CHECK(second.status == 0);
  CHECK_THAT(second.out + second.err, Contains("from step 4 of "));

  write_texts(folder.path(), "tale");  // the same ids
  command.push_back("--resume=strict");
  const ChildResult third = run_train(command);
  CHECK(third.status == 2);
  CHECK_THAT(third.err, Contains("it belongs to another run: data "));
}

TEST_CASE("a damaged text of a file is named with its line, before training") {
  const TempDir folder;
  write_texts(folder.path(), "plot");
  std::ofstream(folder / "dev.tsv", std::ios::app) << "no label\n";
  const ChildResult result = run_train(arguments(folder));
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("dev.tsv: line 7: 1 column, but a line is a sentence, a tab"));
}
