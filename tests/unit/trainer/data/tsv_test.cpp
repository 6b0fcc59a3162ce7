// Files of sentences and labels: what is read, and what is refused with its line.
#include "trainer/data/tsv.hpp"

#include <catch2/catch.hpp>
#include <random>

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

}  // namespace
}  // namespace ddprun::trainer
