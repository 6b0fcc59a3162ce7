// Prints the token ids of each line of stdin, for test_sentencepiece.py.
// usage: print_pieces MODEL FOLDER_OF_THE_PLUGIN
#include <fstream>
#include <iostream>
#include <iterator>

#include "trainer/data/piece_model.hpp"

int main(int /*argc*/, char** argv) {
  std::ifstream file(argv[1], std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const ddprun::trainer::PieceModel model(bytes, ddprun::trainer::texts_of_given(argv[1]), argv[2]);
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::int32_t> tokens;
    model.append(line, 512, tokens);
    for (const std::int32_t token : tokens) std::cout << token << ' ';
    std::cout << '\n';
  }
}
