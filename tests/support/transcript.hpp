// Transcripts: the texts that a program shows stand in files, and a test compares them whole. After
// a change of words `scripts/transcripts` writes the files anew, and the diff is what is reviewed.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {

/// A file of texts, each below a line "=== NAME". A text that does not end with a newline is
/// followed by the line
/// "=== (no newline)".
class Transcript {
 public:
  explicit Transcript(std::string file) : file_(std::move(file)) {
    std::ifstream stream(file_);
    for (std::string line; std::getline(stream, line);) {
      if (line == kNoNewline) {
        if (!texts_.empty() && !texts_.back().second.empty()) texts_.back().second.pop_back();
      } else if (line.starts_with(kHeading)) {
        texts_.emplace_back(line.substr(kHeading.size()), "");
      } else if (!texts_.empty()) {
        texts_.back().second += line + "\n";
      }
    }
  }

  [[nodiscard]] std::optional<std::string> text(const std::string& name) const {
    for (const auto& [known, text] : texts_) {
      if (known == name) return text;
    }
    return std::nullopt;
  }
  /// Replaces the text of this name, or adds it at the end, and writes the file.
  void write(const std::string& name, const std::string& text) {
    bool found = false;
    for (auto& [known, old] : texts_) {
      if (known != name) continue;
      old = text;
      found = true;
    }
    if (!found) texts_.emplace_back(name, text);
    std::ofstream stream(file_);
    for (const auto& [known, all] : texts_) {
      stream << kHeading << known << "\n" << all;
      if (!all.empty() && all.back() != '\n') stream << "\n" << kNoNewline << "\n";
    }
  }

 private:
  inline static const std::string kHeading = "=== ";
  inline static const std::string kNoNewline = "=== (no newline)";

  std::string file_;
  std::vector<std::pair<std::string, std::string>> texts_;
};

/// CHECKs that tests/transcripts/`file`.txt has this text under the name of the running test case
/// and, where a case has several, `state`.
inline void check_transcript(const std::string& file, const std::string& state,
                             const std::string& text) {
  Transcript transcript(DDPRUN_TRANSCRIPTS "/" + file + ".txt");
  const std::string name =
      Catch::getResultCapture().getCurrentTestName() + (state.empty() ? "" : ": " + state);
  if (std::getenv("DDPRUN_WRITE_TRANSCRIPTS") != nullptr) {
    transcript.write(name, text);
    SUCCEED("written");
    return;
  }
  INFO(file << ".txt: " << name << " (after a change of words: scripts/transcripts)");
  CHECK(transcript.text(name).value_or("(no such text in the file)") == text);
}

}  // namespace ddprun::test
