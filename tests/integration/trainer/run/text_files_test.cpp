// Training on texts in files: the same result for any number of workers, and a vocabulary that
// belongs to the run.
#include <algorithm>
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
  CHECK_THAT(third.err, Contains("it belongs to another run: --data "));

  write_texts(folder.path(), "plot");
  command.back() = "--tokens=bytes";
  const ChildResult bytes = run_train(command);
  INFO(bytes.err);
  CHECK_THAT(bytes.err,
             Contains("it belongs to another run: --tokens words there, bytes here: give "
                      "--tokens=words to go on with it; starting from step 0\n"));
}

#ifdef DDPRUN_HAVE_SENTENCEPIECE
TEST_CASE("pieces of a SentencePiece model: the same for any number of workers, kept for --eval") {
  const TempDir folder;
  const TempDir out;
  write_texts(folder.path(), "plot");
  const fs::path model = out.path() / "own.model";
  fs::copy_file(DDPRUN_TINY_MODEL, model);
  std::vector<std::string> command = arguments(folder);
  command.push_back("--tokens=" + model.string());
  check_world_sizes(command, "test_accuracy");

  command.insert(command.end(), {"--out", out / "run"});
  const ChildResult first = run_train(command);
  INFO(first.err);
  REQUIRE(first.status == 0);
  CHECK(text_of(out.path() / "run/latest/sentencepiece.model") == text_of(DDPRUN_TINY_MODEL));

  // The kept one is used.
  fs::remove(model);
  const ChildResult evaluated =
      run_train({"--eval", "--resume-from", out / "run", "--data", folder.path(), "--quiet"});
  INFO(evaluated.err);
  CHECK(evaluated.status == 0);
  CHECK_THAT(evaluated.out, Contains("held-out loss"));
  const fs::path alone = out.path() / "alone";
  fs::create_directory(alone);
  fs::copy_file(out.path() / "run/latest/model.safetensors", alone / "weights.safetensors");
  const ChildResult without = run_train(
      {"--eval", "--resume-from", alone / "weights.safetensors", "--data", folder.path()});
  CHECK(without.status == 2);
  CHECK_THAT(without.err, Contains("no sentencepiece.model beside it, which has the pieces"));

  const ChildResult missing = run_train(command);
  CHECK(missing.status == 2);
  CHECK_THAT(missing.err, Contains("--tokens=" + model.string() +
                                   ": No such file or directory: give the .model file that ") &&
                              Contains(", or use --tokens=words or --tokens=bytes"));
  fs::create_directory(model);
  const ChildResult is_folder = run_train(command);
  CHECK(is_folder.status == 2);
  CHECK_THAT(is_folder.err, Contains("own.model: a folder, not a file: give the .model file"));
  fs::remove(model);

  // A checkpoint has checksums of its model; a copy of it has none.
  const fs::path kept = out.path() / "run/latest/sentencepiece.model";
  const std::vector<std::string> evaluation{"--eval", "--data", folder.path(), "--resume-from"};
  const auto evaluated_from = [&](const fs::path& weights) {
    std::vector<std::string> arguments = evaluation;
    arguments.push_back(weights);
    const ChildResult result = run_train(arguments);
    CHECK(result.status == 2);
    return result.err;
  };
  fs::copy_file(kept, alone / "sentencepiece.model");
  fs::resize_file(alone / "sentencepiece.model", 300);
  CHECK_THAT(evaluated_from(alone / "weights.safetensors"),
             Contains("sentencepiece.model: not a SentencePiece model (it is damaged, or another "
                      "kind of file): copy the file of the checkpoint again"));
  fs::resize_file(kept, 300);
  CHECK_THAT(evaluated_from(kept.parent_path()),
             Contains("sentencepiece.model: cut short: 300 bytes, but ") &&
                 Contains(": copy the checkpoint again, or give another one"));
  fs::remove(kept);
  CHECK_THAT(evaluated_from(kept.parent_path()),
             Contains("sentencepiece.model: No such file or directory: copy the checkpoint again"));

  // Another model is other data.
  std::string bytes = text_of(DDPRUN_TINY_MODEL);
  bytes[bytes.find("\xe2\x96\x81the") + 9] ^= 1;
  std::ofstream(model, std::ios::binary) << bytes;
  command.emplace_back("--resume=strict");
  const ChildResult other = run_train(command);
  CHECK(other.status == 2);
  CHECK_THAT(other.err, Contains("it belongs to another run: --data "));
}

TEST_CASE("a file that is no SentencePiece model is refused in one line") {
  const TempDir folder;
  write_texts(folder.path(), "plot");
  std::vector<std::string> command = arguments(folder);
  std::ofstream(folder.path() / "x.model") << "word list\n";
  command.push_back("--tokens=" + (folder / "x.model").string());
  const ChildResult result = run_train(command);
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("x.model: not a SentencePiece model (it is damaged"));
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
}
#endif

TEST_CASE("more words than a model has tokens are refused before training") {
  const TempDir folder;
  std::ofstream train(folder.path() / "train.tsv");
  std::ofstream(folder.path() / "dev.tsv") << "good\t1\n";
  for (int i = 0; i < 50'300; ++i) train << "w" << i << " w" << i << "\t" << i % 2 << "\n";
  train.close();
  const ChildResult result =
      run_train({"--model=textclf", "--data", folder.path(), "--size=base", "--batch=2"});
  CHECK(result.status == 2);
  CHECK_THAT(result.err,
             Contains("the texts have 50304 different tokens, but the model has 50265: use "));
}

TEST_CASE("a damaged text of a file is named with its line, before training") {
  const TempDir folder;
  write_texts(folder.path(), "plot");
  std::ofstream(folder / "dev.tsv", std::ios::app) << "no label\n";
  const ChildResult result = run_train(arguments(folder));
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("dev.tsv: line 7: 1 column, but a line is a sentence, a tab"));
}
