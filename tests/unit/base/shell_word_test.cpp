// Words of a command line, which sh, zsh, csh and fish must take alike.
#include "base/shell_word.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.hpp"

using ddprun::shell_word;
using ddprun::shell_words;

TEST_CASE("a word that no shell changes stays as it is") {
  for (const std::string word : {"a", "--b=c,d", "/e/f.g", "me@host:22", "+x", "a%b"})
    CHECK(shell_word(word) == word);
}

TEST_CASE("a word with a special character is quoted") {
  CHECK(shell_word("") == "''");
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("$x") == "'$x'");
  CHECK(shell_word("*") == "'*'");
  CHECK(shell_word("~") == "'~'");
  CHECK(shell_word("a^") == "'a^'");
  CHECK(shell_word("a\nb") == "'a\nb'");
  CHECK(shell_word("\xc3\xa9") == "'\xc3\xa9'");
}

TEST_CASE("quotes, backslashes and exclamation marks are kept by a backslash outside the quotes") {
  CHECK(shell_word("it's") == R"('it'\''s')");
  CHECK(shell_word("a\\") == R"('a'\\'')");
  CHECK(shell_word("a!b") == R"('a'\!'b')");
}

TEST_CASE("what a shell changes only at the beginning of a word is quoted there") {
  CHECK(shell_word("=ls") == "'=ls'");
  CHECK(shell_word("%self") == "'%self'");
}

TEST_CASE("each shell of this machine takes a quoted word as it was") {
  std::vector<std::string> words{"",          "it's", "a\\",    "\\'",   "!!",
                                 "a\xc3\xa9", "-n",   "a b  c", "$(id)", "~root"};
  for (char c = ' '; c <= '~'; ++c) {
    words.push_back(std::string(1, c));
    words.push_back("a" + std::string(1, c) + "b");
  }
  words.push_back("a\tb");
  std::string lines;
  for (const std::string& word : words) lines += "<" + word + ">\n";
  const ddprun::test::TempDir folder;
  const std::string script = (folder / "script").string();
  // Not the shell's own printf, of which each has another.
  std::ofstream(script) << "/usr/bin/env printf '<%s>\\n' " << shell_words(words) << "\n";
  for (const std::string shell : {"sh", "bash", "zsh -f", "fish", "tcsh -f"}) {
    const std::string name = shell.substr(0, shell.find(' '));
    const std::string command =
        "command -v " + name + " >/dev/null && exec " + shell + " " + script;
    FILE* output = popen(command.c_str(), "r");
    REQUIRE(output != nullptr);
    std::string text;
    std::array<char, 4096> part{};
    while (const auto got = std::fread(part.data(), 1, part.size(), output))
      text.append(part.data(), got);
    const bool is_here = pclose(output) == 0;
    CAPTURE(shell);
    if (name == "sh") REQUIRE(is_here);
    if (is_here) CHECK(text == lines);
  }
}

TEST_CASE("words of a command line are quoted one by one") {
  CHECK(shell_words({"a b", "", "$x", "it's", "*"}) == "'a b' '' '$x' 'it'\\''s' '*'");
  CHECK(shell_words({}).empty());
}
