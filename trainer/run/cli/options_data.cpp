#include "trainer/run/cli/option_groups.hpp"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "base/duration.hpp"
#include "base/number_in.hpp"
#include "trainer/checkpoint/checkpoint_files.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {

constexpr auto words_for(ModelName) {
  using enum ModelName;
  return std::array{Word{lenet, "lenet"},
                    Word{alexnet, "alexnet"},
                    Word{resnet18, "resnet18"},
                    Word{unet16, "unet16"},
                    Word{unet_resnet34, "unet-resnet34"},
                    Word{unet_resnet101, "unet-resnet101"},
                    Word{textclf, "textclf"}};
}

constexpr auto words_for(TextSize) {
  using enum TextSize;
  return std::array{Word{tiny, "tiny"}, Word{base, "base"}, Word{large, "large"}};
}

constexpr auto words_for(TokenKind) {
  using enum TokenKind;
  // A checkpoint has the model's file by this name.
  return std::array{Word{words, "words"}, Word{bytes, "bytes"}, Word{pieces, kPieceModelFile}};
}

constexpr auto words_for(Stem) {
  using enum Stem;
  return std::array{Word{small, "small"}, Word{imagenet, "imagenet"}};
}

constexpr auto words_for(Decoder) {
  using enum Decoder;
  return std::array{Word{bilinear, "bilinear"}, Word{deconv, "deconv"}};
}

namespace {

constexpr int kClassesMax = 1'000'000;
constexpr double kDeviationMax = 1000;

/// "default" gives none.
std::optional<double> parse_init(const std::string& text) {
  if (text == "default") return std::nullopt;
  constexpr std::string_view kNormal = "normal:";
  if (text.starts_with(kNormal)) {
    const auto deviation = number_in<double>(std::string_view(text).substr(kNormal.size()));
    if (deviation && *deviation > 0 && *deviation <= kDeviationMax) return deviation;
  }
  throw DataError(
      fmt::format("--init {}: must be default, or normal:STD with a deviation above 0 and at most "
                  "{}, such as normal:0.01",
                  text, kDeviationMax));
}

std::optional<double> parse_positive_weight(const std::string& text) {
  if (text == "auto") return std::nullopt;
  const auto weight = number_in<double>(text);
  if (weight && *weight >= 0 && *weight <= kRateMax) return weight;
  throw DataError(fmt::format(
      "--pos-weight {}: must be a number from 0 to {:.0f}, such as 3, or auto", text, kRateMax));
}

void convert_tokens(const std::string& text, Options& options) {
  constexpr std::string_view kEnding = ".model";
  if (text == "words") {
    options.data.tokens = TokenKind::words;
  } else if (text == "bytes") {
    options.data.tokens = TokenKind::bytes;
  } else if (text.ends_with(kEnding)) {
    options.data.tokens = TokenKind::pieces;
    options.data.piece_model = text;
  } else {
    throw DataError(
        fmt::format("--tokens {}: must be words, bytes, or a SentencePiece model, which ends in {}",
                    text, kEnding));
  }
}

void check_init(const Options& options) {
  if (options.model.init_from && options.model.init_from->empty()) {
    throw DataError("--init-from: the name of the file is empty");
  }
  if (!options.model.init_from && !options.model.init_skip.empty()) {
    throw DataError("--init-skip needs --init-from: it leaves out what that file has");
  }
  for (const std::string& prefix : options.model.init_skip) {
    if (prefix.empty()) {
      throw DataError("--init-skip: an empty prefix leaves out all: give the beginning of a name");
    }
  }
}

}  // namespace

void add_data_options(CommandLine& line, Options& options, DataTexts& texts) {
  line.group("What to train");
  line.choice("--model", options.model.name, "Network to train");
  line.number("--classes", options.model.classes, 2, kClassesMax, "N",
              "Outputs of a classifier's last layer; at least as many as the data has classes")
      ->default_str("the data's");
  line.number(
          "--dropout", options.model.dropout, 0, 1, "P",
          "The probability with which the dropout layers of alexnet and textclf drop a value, or "
          "the one of unet-resnet34 and -101 a whole channel")
      ->default_str("alexnet 0.5, unet-resnet 0.2, textclf 0.1");
  line.choice("--stem", options.model.stem,
              "How resnet18 begins: with a 3x3 convolution (images of about 28 pixels), or with "
              "torchvision's 7x7 one and max-pooling");
  line.choice("--decoder", options.model.decoder,
              "How a U-Net enlarges: bilinear and two convolutions, or a convolution and a "
              "transposed one");
  line.text("--pos-weight", texts.positive_weight, "X|auto",
            "U-Nets: factor on the loss of the pixels of a mask; auto: the training set's pixels "
            "outside of its masks, divided by those inside");
  line.choice("--size", options.model.size,
              "textclf: tiny (2 layers of 128 channels), or the size of roberta-base or -large");
  line.text("--data", options.data.folder, "FOLDER",
            "generated (ten kinds of shapes, drawn at the start; for a U-Net with masks; for "
            "textclf sentences), generated-cracks (for U-Nets), or a folder. train finds out what "
            "it holds. Labels: an MNIST-like "
            "set (train-images-idx3-ubyte[.gz], train-labels-idx1-ubyte[.gz] and the t10k ones), "
            "CIFAR-10's binary files (data_batch_1.bin to _5.bin, test_batch.bin), or JPEG and PNG "
            "files in train/CLASS/ and val/CLASS/ or test/CLASS/. Masks: an MNIST-like set with "
            "train-masks-idx3-ubyte[.gz], or JPEG and PNG files in images/ and masks/, in train/ "
            "and val/ or with --holdout. textclf: train.tsv with dev.tsv or test.tsv (sentence, "
            "tab, label)");
  line.text("--image-shape", options.data.image_shape, "HxWxC",
            "Of generated pictures, or what images of a folder are resized to: sides of at most "
            "512, 1 or 3 channels; for alexnet sides of at least 63, for U-Nets multiples of 32 "
            "(unet-resnet: of 64). MNIST-like and CIFAR-10's files keep their own without it")
      ->default_str("28x28x1, unet16 32x32x3, alexnet and unet-resnet 64x64x3");
  line.text("--crop", texts.crop, "SIZE[+PAD]",
            "Train on windows of the images, drawn anew in each epoch: 28 or HxW; with +PAD of "
            "images with PAD pixels of zeros on each side. Evaluation takes the one in the middle. "
            "The network is made for this size");
  line.flag("--flip", options.data.preparation.flip,
            "Train on images of which a random half is mirrored, drawn anew in each epoch");
  line.text("--normalize", texts.normalize, "HOW",
            "The mean and deviation that pixels from 0 to 1 are normalised by: measured (those of "
            "the training set), imagenet (3 channels), none (0 and 1), or MEANS:STDS such as "
            "0.5,0.5,0.5:0.2,0.2,0.2");
  line.text("--data-memory", texts.data_memory, "SIZE",
            "Images of files: sets that take more, such as 500M or 20G, are not kept in memory as "
            "the network sees them. JPEG and PNG files are decoded again in each epoch, MNIST-like "
            "and CIFAR-10's images kept in their own size and resized again, by threads that are "
            "ahead of the training")
      ->default_str("half of the memory that a worker may take");
  line.flag("--skip-bad", options.data.skip_bad,
            "JPEG and PNG files: leave out those that cannot be used, with a warning that counts "
            "and names them");
  line.number("--mask-threshold", options.data.mask_threshold, 1, 255, "N",
              "Mask files: pixels of this value or more belong to the mask")
      ->default_str("128");
  line.number("--holdout", options.data.holdout, 0, 1, "X",
              "A folder of images/ and masks/ without train/: hold out this share of the images, "
              "chosen by --seed");
  line.number("--sentences", options.data.sentences, 1, kSentencesMost, "N",
              "Of generated sentences: how many for training; a quarter as many are held out");
  line.number("--max-tokens", options.data.max_tokens, kSentenceTokensLeast, kTextPositions, "N",
              "The most tokens of a text: generated texts have no more, texts of files are cut")
      ->default_str("generated 64, of files 512");
  line.text("--tokens", texts.tokens, "words|bytes|FILE.model",
            "What a text of a file is split into: the words that occur at least twice in the "
            "training set, bytes, or the pieces of a SentencePiece model");
  line.text("--init", texts.init, "HOW",
            "Seeded initial values: default (those of PyTorch, torchvision or transformers for "
            "this model), "
            "or normal:STD: weights of convolutions, transposed convolutions, linear layers and "
            "embeddings normal with this "
            "deviation, their biases 0");
  line.text("--init-from", options.model.init_from, "FILE",
            "Initial weights by name from this safetensors file (F32, F16 or BF16), in place of "
            "seeded ones; every name, shape and type must match");
  line.text("--init-skip", options.model.init_skip, "PREFIX",
            "With --init-from: leave out parameters and tensors with names that begin with PREFIX; "
            "may be given several times")
      ->allow_extra_args(false);
  line.number("--epochs", options.batches.epochs, 1, kManyMax, "N", "Passes over the training set");
  line.number("--max-steps", options.batches.max_steps, 1, kStepsMax, "N",
              "Stop after N steps (the learning rate still follows --epochs)");
}

std::vector<OptionNeed> data_needs(const Options& options) {
  const bool is_unet = target_of(options.model.name) == Target::mask;
  constexpr const char* kUnets = "--model unet16, unet-resnet34 or unet-resnet101";
  const bool reads_files_of_texts = reads_texts(options.model.name) && !is_generated(options);
  constexpr const char* kTextFiles = "--model textclf with --data FOLDER";
  const bool reads_images = !reads_texts(options.model.name) && !is_generated(options);
  constexpr const char* kImageFiles = "--data FOLDER with JPEG and PNG files";
  constexpr const char* kMaskFiles = "--data FOLDER with images/ and masks/, and a U-Net";
  return {
      {"--classes", !is_unet, "a --model that learns labels: U-Nets learn masks"},
      {"--init", !options.model.init_from || !options.model.init_skip.empty(),
       "--init-skip beside --init-from, which gives all other weights"},
      {"--dropout", default_dropout(options.model.name) > 0,
       "--model alexnet, unet-resnet34, unet-resnet101 or textclf"},
      {"--size", options.model.name == ModelName::textclf, "--model textclf"},
      {"--sentences", reads_texts(options.model.name), "--model textclf"},
      {"--sentences", is_generated(options), "--data generated"},
      {"--tokens", reads_files_of_texts, kTextFiles},
      {"--max-tokens", options.model.name == ModelName::textclf, "--model textclf"},
      {"--image-shape", !reads_texts(options.model.name), "a --model of images"},
      {"--crop", !reads_texts(options.model.name), "a --model of images"},
      {"--flip", !reads_texts(options.model.name), "a --model of images"},
      {"--normalize", !reads_texts(options.model.name), "a --model of images"},
      {"--data-memory", reads_images, "--data FOLDER with images"},
      {"--skip-bad", reads_images, kImageFiles},
      {"--data", is_unet || options.data.folder != kGeneratedCracks,
       "a U-Net to learn generated-cracks, which have masks"},
      {"--mask-threshold", is_unet && !is_generated(options), kMaskFiles},
      {"--holdout", is_unet && !is_generated(options), kMaskFiles},
      {"--stem", options.model.name == ModelName::resnet18, "--model resnet18"},
      {"--decoder", is_unet, kUnets},
      {"--pos-weight", is_unet, kUnets},
  };
}

void convert_data(const DataTexts& texts, Options& options) {
  check_init(options);
  options.model.normal_init = parse_init(texts.init);
  options.model.positive_weight = parse_positive_weight(texts.positive_weight);
  convert_tokens(texts.tokens, options);
  if (texts.crop) options.data.preparation.crop = parse_crop(*texts.crop);
  options.data.preparation.normalize = parse_normalize(texts.normalize);
  if (texts.data_memory) {
    options.data.memory = parse_byte_count(*texts.data_memory);
    if (!options.data.memory) {
      throw DataError(fmt::format("--data-memory {}: must be bytes, 1 or more, {}",
                                  *texts.data_memory, kByteCountExamples));
    }
  }
  generated_shape(options);
}

ImageShape generated_shape(const Options& options) {
  const char* usual = target_of(options.model.name) == Target::mask ? "32x32x3" : "28x28x1";
  if (is_unet_resnet(options.model.name) || options.model.name == ModelName::alexnet)
    usual = "64x64x3";
  return parse_image_shape(options.data.image_shape.value_or(usual));
}

std::string to_string(ModelName model) { return std::string(word_of(model)); }
std::string to_string(Stem stem) { return std::string(word_of(stem)); }
std::string to_string(Decoder decoder) { return std::string(word_of(decoder)); }
std::string to_string(TextSize size) { return std::string(word_of(size)); }
std::string to_string(TokenKind kind) { return std::string(word_of(kind)); }

bool is_generated(const Options& options) {
  return options.data.folder == kGeneratedData || options.data.folder == kGeneratedCracks;
}

}  // namespace ddprun::trainer
