#include "trainer/data/tsv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/hash_bytes.hpp"
#include "base/lower_case.hpp"
#include "base/printable.hpp"
#include "trainer/data/piece_model.hpp"
#include "trainer/data/read_file.hpp"
#include "trainer/data/text_set.hpp"
#include "trainer/data/train_and_test.hpp"
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

struct TsvFile {
  std::filesystem::path path;
  std::vector<std::uint8_t> bytes;
  std::vector<TsvRow> rows;  // parts of bytes
};

TsvFile read_tsv(const std::filesystem::path& path) {
  TsvFile file{.path = path, .bytes = read_file_or_gzip(path), .rows = {}};
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  file.rows = parse_tsv(text, path.string());
  return file;
}

std::filesystem::path held_out_path(const std::filesystem::path& folder) {
  for (const char* name : {"dev.tsv", "test.tsv"}) {
    if (std::filesystem::is_regular_file(folder / name)) return folder / name;
  }
  const std::string other = held_out_by_other_name(folder, ".tsv");
  throw DataError(fmt::format(
      "{}: no dev.tsv or test.tsv there to evaluate on beside train.tsv: {}", folder.string(),
      other.empty() ? "add one" : fmt::format("rename {} to dev.tsv", printable(other))));
}

FileLabels labels_of(const TsvFile& file) {
  FileLabels labels{.file = file.path.string(), .labels = {}, .place = [&](std::size_t sample) {
                      return fmt::format("line {}", file.rows[sample].line);
                    }};
  labels.labels.reserve(file.rows.size());
  for (const TsvRow& row : file.rows) labels.labels.push_back(row.label);
  return labels;
}

/// As append_tokens(), of one kind.
using AppendTokens =
    std::function<bool(std::string_view sentence, int longest, std::vector<std::int32_t>& tokens)>;

struct Tokenizer {
  int vocabulary = 0;
  std::string file = {};  ///< the bytes of the one that a checkpoint keeps
  AppendTokens append;
};

/// Counts those that were cut.
std::size_t append_texts(const TsvFile& file, const AppendTokens& append, int longest,
                         TokenizedTexts& texts) {
  std::size_t cut = 0;
  for (const TsvRow& row : file.rows) {
    if (append(row.sentence, longest, texts.tokens)) ++cut;
    texts.ends.push_back(texts.tokens.size());
    texts.labels.push_back(row.label);
  }
  return cut;
}

std::string cut_text(std::size_t train, std::size_t test, int longest) {
  if (train + test == 0) return "";
  return fmt::format(
      "{} text{} of the training set and {} of the held-out set {} more than {} tokens: only the "
      "first {} are used",
      train, train == 1 ? "" : "s", test, train + test == 1 ? "has" : "have", longest, longest);
}

std::string text_of(const std::filesystem::path& file) {
  const std::vector<std::uint8_t> bytes = read_file_or_gzip(file);
  return {bytes.begin(), bytes.end()};
}

Tokenizer make_words(const TsvFile& train, const std::optional<std::filesystem::path>& kept) {
  std::shared_ptr<const WordVocabulary> words;
  if (kept) {
    words = std::make_shared<WordVocabulary>(text_of(*kept), kept->string());
  } else {
    std::vector<std::string_view> sentences;
    sentences.reserve(train.rows.size());
    for (const TsvRow& row : train.rows) sentences.push_back(row.sentence);
    words = std::make_shared<WordVocabulary>(sentences);
  }
  return {.vocabulary = words->size(),
          .file = words->text(),
          .append = [words](std::string_view sentence, int longest, auto& tokens) {
            return append_tokens(sentence, words.get(), longest, tokens);
          }};
}

Tokenizer make_bytes() {
  return {.vocabulary = kByteVocabulary,
          .append = [](std::string_view sentence, int longest, auto& tokens) {
            return append_tokens(sentence, nullptr, longest, tokens);
          }};
}

std::string read_piece_model(const std::filesystem::path& file, const PieceModelTexts& texts) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    throw DataError(fmt::format("{}: a folder, not a file: {}", texts.name, texts.remedy));
  try {
    return text_of(file);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}{}: {}", texts.option, error.what(), texts.remedy));
  }
}

Tokenizer make_pieces(const TextSettings& settings) {
  const std::filesystem::path& file = settings.vocabulary.value();
  const PieceModelTexts texts = settings.is_kept ? texts_of_kept(file) : texts_of_given(file);
  std::string bytes = read_piece_model(file, texts);
  const auto model = std::make_shared<const PieceModel>(bytes, texts, settings.plugin_folder);
  return {.vocabulary = model->size(),
          .file = std::move(bytes),
          .append = [model](std::string_view sentence, int longest, auto& tokens) {
            return model->append(sentence, longest, tokens);
          }};
}

Tokenizer make_tokenizer(const TextSettings& settings, const TsvFile& train) {
  switch (settings.tokens) {
    case TokenKind::words:
      break;
    case TokenKind::bytes:
      return make_bytes();
    case TokenKind::pieces:
      return make_pieces(settings);
  }
  return make_words(train, settings.vocabulary);
}

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

TrainAndTest load_tsv(const std::filesystem::path& folder, const TextSettings& settings,
                      std::optional<int> head) {
  const std::filesystem::path held_out = held_out_path(folder);
  const TsvFile train_file = read_tsv(folder / "train.tsv");
  const TsvFile test_file = read_tsv(held_out);
  const int classes = agree_on_classes(labels_of(train_file), labels_of(test_file), head);

  Tokenizer tokenizer = make_tokenizer(settings, train_file);
  const int vocabulary = tokenizer.vocabulary;
  TrainAndTest sets;
  sets.vocabulary = std::move(tokenizer.file);
  TokenizedTexts train{.vocabulary = vocabulary, .classes = classes};
  TokenizedTexts test{.vocabulary = vocabulary, .classes = classes};
  const std::size_t train_cut = append_texts(train_file, tokenizer.append, settings.longest, train);
  const std::size_t test_cut = append_texts(test_file, tokenizer.append, settings.longest, test);
  sets.warning = cut_text(train_cut, test_cut, settings.longest);

  const std::uint64_t start =
      hash_bytes(std::as_bytes(std::span(sets.vocabulary)), static_cast<std::uint64_t>(vocabulary));
  const std::string name = folder_name(folder);
  sets.train = std::make_unique<TextSet>(name, std::move(train), start);
  sets.test = std::make_unique<TextSet>(name, std::move(test), start);
  return sets;
}

std::uint64_t known_tsv_bytes(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  for (const std::filesystem::path& file : {folder / "train.tsv", held_out_path(folder)}) {
    std::error_code unreadable;  // reported by the reader
    const std::uintmax_t size = std::filesystem::file_size(file, unreadable);
    if (!unreadable) bytes += size;
  }
  return bytes;
}

}  // namespace ddprun::trainer
