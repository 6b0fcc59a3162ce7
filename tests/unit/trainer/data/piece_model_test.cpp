// Texts as pieces of a SentencePiece model. tiny.model was written by the package sentencepiece
// 0.2.3 for Python: 300 lines of 8 words, SentencePieceTrainer.train(vocab_size=45,
// model_type="unigram", normalization_rule_name="identity"). The ids below are those of
// SentencePieceProcessor.encode(). test_sentencepiece.py compares many more.
#include "trainer/data/piece_model.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/support/captured_stderr.hpp"
#include "tests/support/temp_dir.hpp"
#include "trainer/data/text_set.hpp"
#include "trainer/data/tsv.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using Tokens = std::vector<std::int32_t>;

std::string tiny_model() {
  std::ifstream file(DDPRUN_TINY_MODEL, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string refusal(const std::string& bytes, const std::string& folder) {
  try {
    PieceModel(bytes, texts_of_given("x.model"), folder);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("files that are no SentencePiece model never reach the library") {
  const std::string model = tiny_model();
  REQUIRE(model.size() == 598);
  CHECK(why_no_piece_model(model).empty());
  CHECK(why_no_piece_model("") == "it has no piece");
  CHECK(why_no_piece_model("these are words\n") == "it is damaged, or another kind of file");
  CHECK(why_no_piece_model(model.substr(0, 300)) == "it is damaged, or another kind of file");
  std::string without = model;
  without.replace(without.find("<unk>") + 10, 2, 2, '\x01');
  CHECK_FALSE(why_no_piece_model(without).empty());
}

TEST_CASE("without the plugin a model is refused with what to install") {
  const test::TempDir empty;
  CHECK(refusal(tiny_model(), empty.path()) ==
        "--tokens=x.model: this train was built without SentencePiece (libtrain_sentencepiece.so "
        "is missing beside it): install libsentencepiece-dev and build it again, or use "
        "--tokens=words or --tokens=bytes");
  std::ofstream(empty.path() / kPiecePluginFile) << "no library";
  CHECK_THAT(refusal(tiny_model(), empty.path()),
             Contains("libtrain_sentencepiece.so cannot be opened: ") &&
                 Contains("install libsentencepiece0"));
}

#ifdef DDPRUN_HAVE_SENTENCEPIECE
std::string plugin_folder() { return std::getenv("DDPRUN_TEST_BIN"); }

TEST_CASE("pieces have the ids of the Python package, behind RoBERTa's four tokens") {
  const PieceModel model(tiny_model(), texts_of_given("tiny.model"), plugin_folder());
  CHECK(model.size() == 45 + 4);
  const auto tokens = [&](std::string_view text, int longest = 512) {
    Tokens all;
    CHECK(model.append(text, longest, all) == (longest < 512));
    return all;
  };
  CHECK(tokens("the film is good") == Tokens{0, 15, 23, 7, 48, 36, 47, 47, 37, 2});
  // A text with a letter that the model does not know.
  CHECK(tokens("a na\xc3\xafve  story") == Tokens{0, 9, 48, 44, 43, 3, 33, 45, 18, 2});
  CHECK(tokens("") == Tokens{0, 2});
  CHECK(tokens("the film is good", 4) == Tokens{0, 15, 23, 2});
}

TEST_CASE("what the library refuses is one line, and the library itself prints nothing") {
  const std::string model = tiny_model();
  // A second piece with the text of another one: its message, behind a tag and a length.
  const std::size_t begin = model.find("\xe2\x96\x81the") - 4;
  const std::string twice = model.substr(begin, 2U + static_cast<unsigned char>(model[begin + 1]));
  REQUIRE(why_no_piece_model(twice + model).empty());
  std::string reason;
  const std::string printed =
      test::captured_stderr([&] { reason = refusal(twice + model, plugin_folder()); });
  CHECK(printed.empty());
  CHECK_THAT(reason, Contains("--tokens=x.model: not a SentencePiece model (") &&
                         Contains("): give the .model file that SentencePiece's trainer wrote"));
  CHECK(reason.find('\n') == std::string::npos);
}

TEST_CASE("a model's bytes belong to the data, and are what a checkpoint keeps") {
  const test::TempDir folder;
  std::ofstream(folder.path() / "train.tsv") << "the film\t1\na story\t0\n";
  std::ofstream(folder.path() / "dev.tsv") << "the story\t0\n";
  const auto load = [&](const std::string& bytes) {
    std::ofstream(folder.path() / "x.model", std::ios::binary) << bytes;
    return load_tsv(folder.path(),
                    {.tokens = TokenKind::pieces,
                     .vocabulary = folder.path() / "x.model",
                     .plugin_folder = plugin_folder()},
                    {});
  };
  const TrainAndTest sets = load(tiny_model());
  CHECK(sets.vocabulary == tiny_model());
  CHECK(sets.train->texts()->shape().vocabulary == 49);
  // Another score of a piece, the same ids.
  std::string other = tiny_model();
  other[other.find("\xe2\x96\x81the") + 9] ^= 1;
  CHECK(load(other).train->content_hash() != sets.train->content_hash());
}
#endif

}  // namespace
}  // namespace ddprun::trainer
