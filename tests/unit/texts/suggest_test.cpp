#include "texts/suggest.hpp"

#include <catch2/catch.hpp>

using namespace ddprun;

TEST_CASE("the edit distance counts insertions, deletions, replacements and swaps of neighbours") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "abc") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("nnodes", "nodes") == 1);
  CHECK(edit_distance("gpus", "gpuz") == 1);
  CHECK(edit_distance("rank", "rnak") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the nearest word is suggested only when it is near enough") {
  const std::vector<std::string> words{"nproc-per-node", "nnodes", "train", "gpus"};
  CHECK(nearest("trian", words) == "train");
  CHECK(nearest("nprocs-per-node", words) == "nproc-per-node");
  CHECK(nearest("gpu", words) == "gpus");
  CHECK(nearest("nproc", words) == "nproc-per-node");
  CHECK_FALSE(nearest("something", words).has_value());
  CHECK_FALSE(nearest("", words).has_value());
  CHECK_FALSE(nearest("train", {}).has_value());
}

TEST_CASE("a word that another begins with is nearer than one with two changes") {
  CHECK(nearest("resnet", {"lenet", "resnet18"}) == "resnet18");
  CHECK(nearest("lenett", {"lenettes", "lenet"}) == "lenettes");
  CHECK(nearest("le", {"lenet"}) == std::nullopt);
}

TEST_CASE("of equally near words the first is suggested") {
  CHECK(nearest("cart", {"dart", "mart"}) == "dart");
}

TEST_CASE("a short word that begins otherwise is another word") {
  CHECK_FALSE(nearest("gpu", {"auto", "cpu", "cuda"}).has_value());
  CHECK(nearest("cqu", {"auto", "cpu", "cuda"}) == "cpu");
}

TEST_CASE("a word of any length is answered at once") {
  CHECK_FALSE(
      nearest(std::string(1'000'000, 'x'), {"train", std::string(1'000'000, 'x')}).has_value());
}
