"""Texts as pieces have the ids of the package sentencepiece for Python, for models of each type. Skipped where the package
or the plugin of train is missing."""

import io
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

try:
    import sentencepiece
except ImportError:
    sentencepiece = None

BUILD = pathlib.Path(os.environ["DDPRUN_TEST_BUILD"])
BIN = pathlib.Path(os.environ["DDPRUN_TEST_BIN"])
PRINT = BUILD / "tests/print_pieces"
WORDS = ("the song was never long overall this film is not really good a very dull book and one bright new story but an old "
         "slow play naïve Straße 映画 すごい 😀 ﬁne Ⅷ").split()


@unittest.skipIf(sentencepiece is None, "the package sentencepiece is not installed")
@unittest.skipUnless((BIN / "libtrain_sentencepiece.so").exists(), "train is built without SentencePiece")
class Pieces(unittest.TestCase):
    def test_pieces_have_the_ids_of_the_python_package(self):
        chance = random.Random(1)
        lines = [" ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 12))) for _ in range(400)]
        texts = lines[:200] + ["", "  a  b ", "zzz qqq", "GOOD film", "\u00e9\u0301", "\u3000x"]
        for settings in ({"model_type": "unigram"}, {"model_type": "bpe"}, {"model_type": "char"}, {"model_type": "word"},
                         {"model_type": "bpe", "byte_fallback": True, "vocab_size": 330},
                         {"model_type": "unigram", "unk_id": 3, "pad_id": 0, "bos_id": 1, "eos_id": 2}):
            settings = {"vocab_size": 60, "hard_vocab_limit": False} | settings
            with self.subTest(settings=settings), tempfile.TemporaryDirectory() as folder:
                model = io.BytesIO()
                sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, minloglevel=2,
                                                         use_all_vocab=settings["model_type"] in ("char", "word"), **settings)
                path = pathlib.Path(folder) / "x.model"
                path.write_bytes(model.getvalue())
                processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
                ran = subprocess.run([PRINT, path, BIN], input="".join(f"{text}\n" for text in texts), text=True,
                                     encoding="utf-8", capture_output=True, check=True)
                self.assertEqual(ran.stderr, "")
                unknown = processor.unk_id()
                wanted = [[0, *(3 if one == unknown else one + 4 for one in processor.encode(text)), 2] for text in texts]
                self.assertEqual([[int(one) for one in line.split()] for line in ran.stdout.splitlines()], wanted)


if __name__ == "__main__":
    unittest.main()
