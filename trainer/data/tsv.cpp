#include "trainer/data/tsv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/lower_case.hpp"
#include "base/printable.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::size_t kShownBytes = 40;
constexpr std::string_view kNoWordBytes = " \t\v\f\r";

/// The offset of the first byte that is not UTF-8; text.size(): there is none.
std::size_t first_invalid(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t bytes = utf8_character_bytes(text.substr(at));
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

std::string shown(std::string_view text) {
  const bool is_long = text.size() > kShownBytes;
  return printable(text.substr(0, kShownBytes)) + (is_long ? "..." : "");
}

/// One line without its end.
TsvRow parse_row(std::string_view text, std::size_t line, const std::string& file) {
  const auto refuse = [&](const std::string& why) {
    throw DataError(fmt::format("{}: line {}: {}", file, line, why));
  };
  if (const std::size_t at = first_invalid(text); at < text.size())
    refuse(fmt::format("byte {} is no UTF-8: convert the file to UTF-8", at));
  if (text.empty()) refuse("the line is empty: remove it");
  const auto tabs = std::count(text.begin(), text.end(), '\t');
  if (tabs != 1) {
    refuse(fmt::format("{} column{}, but a line is a sentence, a tab and a label: correct the line",
                       tabs + 1, tabs == 0 ? "" : "s"));
  }
  const std::size_t tab = text.find('\t');
  TsvRow row{.sentence = text.substr(0, tab), .line = line};
  if (row.sentence.find_first_not_of(kNoWordBytes) == std::string_view::npos)
    refuse("the sentence is empty: remove the line");
  const std::string_view label = text.substr(tab + 1);
  const char* const end = label.data() + label.size();
  const auto [stop, error] = std::from_chars(label.data(), end, row.label);
  if (error != std::errc() || stop != end || row.label < 0 || row.label > kTsvLabelMax) {
    refuse(fmt::format(
        "the label {} is no number from 0 to {}{}", shown(label), kTsvLabelMax,
        line == 1 ? ": if the line is a header, remove it, or call the column label" : ""));
  }
  return row;
}

/// As the files of GLUE have one.
bool is_header(std::string_view line) { return lower_case(line).ends_with("\tlabel"); }

}  // namespace

std::vector<TsvRow> parse_tsv(std::string_view text, const std::string& file) {
  text = without_byte_order_mark(text);
  std::vector<TsvRow> rows;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view one = text.substr(0, end);
    if (one.ends_with('\r')) one.remove_suffix(1);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line > 1 || !is_header(one)) rows.push_back(parse_row(one, line, file));
  }
  if (rows.empty()) throw DataError(file + ": no line with a sentence, a tab and a label");
  return rows;
}

}  // namespace ddprun::trainer
