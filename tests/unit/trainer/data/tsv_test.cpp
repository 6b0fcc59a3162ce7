// Files of sentences and labels: what is read, and what is refused with its line.
#include "trainer/data/tsv.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <random>

#include "tests/support/temp_dir.hpp"
#include "trainer/data/load.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

void refuse(const std::string& text) { parse_tsv(text, "a.tsv"); }

TEST_CASE("a line is a sentence, a tab and a label, and the last one may have no end") {
  for (const char* text : {"good film\t1\nbad\t0\n", "good film\t1\nbad\t0",
                           "good film\t1\r\nbad\t0\r\n", "\xef\xbb\xbfgood film\t1\nbad\t0\n"}) {
    const std::vector<TsvRow> rows = parse_tsv(text, "a.tsv");
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].sentence == "good film");
    CHECK(rows[0].label == 1);
    CHECK(rows[1].sentence == "bad");
    CHECK(rows[1].label == 0);
    CHECK(rows[1].line == 2);
  }
}

TEST_CASE("a header is left out where it names the column of labels") {
  for (const char* header : {"sentence\tlabel\n", "Text\tLABEL\r\n"})
    CHECK(parse_tsv(header + std::string("bad\t0\n"), "a.tsv").at(0).line == 2);
  CHECK_THROWS_WITH(refuse("a\t1\nsentence\tlabel\n"), Contains("line 2: the label label is no"));
  CHECK_THROWS_WITH(refuse("text\tclass\nbad\t0\n"),
                    Contains("a.tsv: line 1: the label class is no number") &&
                        EndsWith("if the line is a header, remove it, or call the column label"));
}

TEST_CASE("what is no sentence with a label is refused with its line") {
  CHECK_THROWS_WITH(refuse(""), Contains("a.tsv: no line with a sentence"));
  CHECK_THROWS_WITH(refuse("sentence\tlabel\n"), Contains("a.tsv: no line"));
  CHECK_THROWS_WITH(refuse("a\t1\nb 0\n"),
                    Contains("a.tsv: line 2: 1 column, but") && EndsWith(": correct the line"));
  for (const char* end : {"\n", "\r\n"}) {
    const std::string line = end;
    CHECK_THROWS_WITH(refuse("a\t1" + line + line + "b\t0" + line),
                      "a.tsv: line 2: the line is empty: remove it");
    CHECK_THROWS_WITH(refuse("a\t1" + line + line), "a.tsv: line 2: the line is empty: remove it");
  }
  CHECK_THROWS_WITH(refuse("7\ta\t1\n"), Contains("a.tsv: line 1: 3 columns, but"));
  CHECK_THROWS_WITH(refuse("a\t1\n \t0\n"), Contains("line 2: the sentence is empty"));
  CHECK_THROWS_WITH(refuse("a\t1\n\t0\n"), Contains("line 2: the sentence is empty"));
  for (const char* label : {"", "x", "-1", "1.0", "1 ", " 1", "1000000", "99999999999999999999"}) {
    CHECK_THROWS_WITH(refuse(std::string("a\t1\na\t") + label + "\n"),
                      Contains(std::string("a.tsv: line 2: the label ") + label) &&
                          EndsWith("is no number from 0 to 999999"));
  }
  CHECK_THROWS_WITH(refuse("a\t\x1b[31m\n"), Contains("the label \\x1b[31m is"));
}

TEST_CASE("sentences are UTF-8") {
  for (const char* good : {"gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                           "\xf4\x8f\xbf\xbf", "\xee\x80\x80"}) {
    CHECK(parse_tsv(std::string(good) + "\t1", "a.tsv").at(0).sentence == good);
  }
  // Alone, cut short, over-long, surrogates, beyond U+10FFFF.
  for (const char* bad :
       {"\x80", "\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc0\xaf", "\xe0\x80\xaf",
        "\xf0\x80\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"}) {
    CHECK_THROWS_WITH(refuse("a\t1\nab" + std::string(bad) + "\t1\n"),
                      Contains("a.tsv: line 2: byte 2 is no UTF-8"));
  }
}

TEST_CASE("a file of texts with any bytes changed is read or refused, nothing else") {
  std::mt19937 random(11);
  for (int turn = 0; turn < 2000; ++turn) {
    std::string text = "gr\xc3\xbc\xc3\x9f dich\t1\nbad film\t0\r\nno end\t12";
    for (unsigned change = 0; change < 1 + random() % 4; ++change)
      text[random() % text.size()] = static_cast<char>(random());
    std::size_t rows = 0;  // CHECK would catch the refusal itself
    try {
      rows = parse_tsv(text, "x").size();
    } catch (const DataError&) {
      continue;
    }
    CHECK(rows <= text.size());
  }
}

using Catch::Matchers::Contains;
using Tokens = std::vector<std::int32_t>;

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// With train.tsv and dev.tsv.
class TsvFolder {
 public:
  TsvFolder() {
    write_text(path() / "train.tsv", "good good film\t1\nbad bad film\t0\n");
    write_text(path() / "dev.tsv", "a good film\t1");
  }
  [[nodiscard]] std::filesystem::path path() const { return directory_.path(); }
  [[nodiscard]] TrainAndTest load(const TextSettings& settings = {},
                                  std::optional<int> head = {}) const {
    return load_data(
        {.data = path().string(), .kind = DataKind::texts, .head = head, .texts = settings});
  }

 private:
  test::TempDir directory_;
};

Tokens tokens_of(const DataSet& any, std::size_t index) {
  const TextSet& set = *any.texts();
  Tokens tokens(static_cast<std::size_t>(set.length(index)));
  set.read_tokens(index, tokens);
  return tokens;
}

TEST_CASE("both sets have the words of the training set") {
  const TsvFolder folder;
  const TrainAndTest sets = folder.load();
  CHECK(sets.vocabulary == "<s>\n<pad>\n</s>\n<unk>\ngood\nfilm\nbad\n");
  CHECK(sets.warning.empty());
  CHECK(sets.train->name() == folder.path().filename().string());
  CHECK(sets.train->size() == 2);
  CHECK(sets.test->size() == 1);
  CHECK(sets.train->classes() == 2);
  CHECK(sets.test->classes() == 2);
  CHECK(sets.train->texts()->shape().vocabulary == 7);
  CHECK(sets.test->texts()->shape().vocabulary == 7);
  CHECK(tokens_of(*sets.train, 1) == Tokens{0, 6, 6, 5, 2});
  CHECK(tokens_of(*sets.test, 0) == Tokens{0, 3, 4, 5, 2});
  CHECK(known_tsv_bytes(folder.path()) == 45);
}

TEST_CASE("bytes need no vocabulary") {
  const TsvFolder folder;
  const TrainAndTest sets = folder.load({.tokens = TokenKind::bytes});
  CHECK(sets.vocabulary.empty());
  CHECK(sets.train->texts()->shape().vocabulary == 260);
  CHECK(sets.train->texts()->length(0) == 16);
}

TEST_CASE("other words make another data set, though their ids are the same") {
  const TsvFolder folder;
  const std::uint64_t before = folder.load().train->content_hash();
  CHECK(folder.load().train->content_hash() == before);
  write_text(folder.path() / "train.tsv", "fine fine film\t1\nbad bad film\t0\n");
  write_text(folder.path() / "dev.tsv", "a fine film\t1");
  CHECK(folder.load().train->content_hash() != before);
}

TEST_CASE("texts that are too long are cut and counted") {
  const TsvFolder folder;
  const TrainAndTest sets = folder.load({.longest = 4});
  CHECK(tokens_of(*sets.train, 0) == Tokens{0, 4, 4, 2});
  CHECK(sets.warning ==
        "2 texts of the training set and 1 of the held-out set have more than 4 tokens: only the "
        "first 4 are used");
}

TEST_CASE("dev.tsv is held out, else test.tsv, and one of them is needed") {
  const TsvFolder folder;
  write_text(folder.path() / "test.tsv", "x\t0\ny\t1\nz\t1\n");
  CHECK(folder.load().test->size() == 1);
  std::filesystem::remove(folder.path() / "dev.tsv");
  CHECK(folder.load().test->size() == 3);
  std::filesystem::remove(folder.path() / "test.tsv");
  CHECK_THROWS_WITH(folder.load(), Contains("no dev.tsv or test.tsv there to evaluate on beside "
                                            "train.tsv: add one"));
  write_text(folder.path() / "valid.tsv", "x\t0\n");
  CHECK_THROWS_WITH(folder.load(), Contains("beside train.tsv: rename valid.tsv to dev.tsv"));
}

TEST_CASE("a label beyond the head is refused with its file and line") {
  const TsvFolder folder;
  const std::string train = (folder.path() / "train.tsv").string();
  const std::string dev = (folder.path() / "dev.tsv").string();
  write_text(dev, "a\t1\nb\t2\n");
  CHECK_THROWS_WITH(folder.load(),
                    Contains(dev + ": line 2: the label is 2, but the labels of " + train +
                             " end at 1: correct the file, or give "
                             "--classes=3"));
  CHECK(folder.load({}, 4).train->classes() == 3);
  write_text(train, "a\t1\nb\t4\n");
  CHECK_THROWS_WITH(folder.load({}, 4), Contains(train + ": line 2: the label is 4, but "
                                                         "--classes=4 allows 0 to 3"));
  write_text(train, "a\t0\nb\t0\n");
  CHECK_THROWS_WITH(folder.load(), Contains("all labels are 0"));
}

TEST_CASE("a damaged line of either file is named") {
  const TsvFolder folder;
  write_text(folder.path() / "dev.tsv", "a\t1\nb\n");
  CHECK_THROWS_WITH(folder.load(), Contains("dev.tsv: line 2: 1 column"));
}

}  // namespace

}  // namespace ddprun::trainer
