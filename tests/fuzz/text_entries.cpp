#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "tests/fuzz/entries.hpp"
#include "tests/fuzz/error_line.hpp"
#include "trainer/data/piece_model.hpp"
#include "trainer/data/tsv.hpp"
#include "trainer/error.hpp"

namespace ddprun::test {
namespace {

std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace

void fuzz_tsv(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  const std::string_view text = text_of(data + 1, size - 1);
  try {
    std::size_t line = 0;
    const char* end = text.data();
    for (const trainer::TsvRow& row : trainer::parse_tsv(text, "x.tsv")) {
      DDPRUN_ASSERT(row.line > line, "rows are in the order of their lines");
      DDPRUN_ASSERT(row.label >= 0 && row.label <= trainer::kTsvLabelMax, "a label is in range");
      DDPRUN_ASSERT(
          !row.sentence.empty() && row.sentence.find_first_of("\t\n") == row.sentence.npos,
          "a sentence is a part of a line");
      DDPRUN_ASSERT(row.sentence.data() >= end, "sentences do not overlap");
      end = row.sentence.data() + row.sentence.size();
      DDPRUN_ASSERT(end <= text.data() + text.size(), "a sentence is in the text");
      line = row.line;
    }
  } catch (const trainer::DataError& error) {
    check_error_line(error.what());
  }
}

void fuzz_piece_model(const std::uint8_t* data, std::size_t size) {
  const std::string reason = trainer::why_no_piece_model(text_of(data, size));
  if (!reason.empty()) check_error_line(reason);
}

}  // namespace ddprun::test
