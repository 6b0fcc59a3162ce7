// Words of a command line, which sh, zsh, csh and fish must take alike.
#include "base/shell_word.hpp"

#include <catch2/catch.hpp>

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

TEST_CASE("words of a command line are quoted one by one") {
  CHECK(shell_words({"a b", "", "$x", "it's", "*"}) == "'a b' '' '$x' 'it'\\''s' '*'");
  CHECK(shell_words({}).empty());
}
