"""Write what every command of the corpus answers: python tests/corpus/write.py, then read `git diff`.

Blocks that are the same but for the last digits of their figures are left as they are. Names of files of answers, such
as `ttft`, write these alone.
"""

import sys

from recorded import ANSWERS, answered, commands, is_same, stored


def main(names):
    """Write the files of answers with these names; all of them, and no others, where none is given."""
    lines = commands()
    ANSWERS.mkdir(exist_ok=True)
    for path in ANSWERS.glob("*.txt"):
        if path.stem not in lines:
            path.unlink()
    for name in names or lines:
        before = stored(name)
        blocks = [
            before[line] if is_same(before.get(line, ""), block) else block
            for line, block in answered(name, lines[name]).items()
        ]
        (ANSWERS / f"{name}.txt").write_text("\n".join(blocks), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
