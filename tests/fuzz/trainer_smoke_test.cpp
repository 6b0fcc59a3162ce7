// The trainer's entries of the fuzzers as a test (replay.hpp).
#include <catch2/catch.hpp>

#include "tests/fuzz/entries.hpp"
#include "tests/fuzz/replay.hpp"

using namespace ddprun::test;

TEST_CASE("any bytes are read as initial weights or refused in one line") {
  CHECK(replay(fuzz_safetensors, "safetensors", 20000) > 0);
}

TEST_CASE("any bytes are decoded as an image or refused in one line") {
  CHECK(replay(fuzz_jpeg, "jpeg", 5000) > 0);
  CHECK(replay(fuzz_png, "png", 5000) > 0);
}

TEST_CASE("any bytes are rows of texts, or refused in one line") {
  CHECK(replay(fuzz_tsv, "tsv", 20000) > 0);
}

TEST_CASE("any bytes are judged as a SentencePiece model in one line") {
  CHECK(replay(fuzz_piece_model, "piece_model", 20000) > 0);
}
