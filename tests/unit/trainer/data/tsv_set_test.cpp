// A folder of TSV files becomes a pair of sets with one vocabulary.
#include "trainer/data/tsv_set.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "trainer/data/load.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

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

Tokens tokens_of(const DataSet& set, std::size_t index) {
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
  CHECK(sets.train->text().vocabulary == 7);
  CHECK(sets.test->text().vocabulary == 7);
  CHECK(tokens_of(*sets.train, 1) == Tokens{0, 6, 6, 5, 2});
  CHECK(tokens_of(*sets.test, 0) == Tokens{0, 3, 4, 5, 2});
  CHECK(known_tsv_bytes(folder.path()) == 45);
}

TEST_CASE("bytes need no vocabulary") {
  const TsvFolder folder;
  const TrainAndTest sets = folder.load({.tokens = TokenKind::bytes});
  CHECK(sets.vocabulary.empty());
  CHECK(sets.train->text().vocabulary == 260);
  CHECK(sets.train->length(0) == 16);
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
