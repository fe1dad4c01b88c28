# SPDX-License-Identifier: Apache-2.0
"""
All commands in the documentation: in fenced or indented blocks, within sentences, and in the examples of manual pages.
"""
import re

from .base import ROOT
from .pages import FENCE

# The beginning of a command. Single words (`make`, `resumelbctl`) are names.
PROGRAM = re.compile(r'(?:\$ )?(?:build/bin/)?(?:resumelb(?:-agent|-poolcounter|-replay|ctl)?|make|cmake|ctest|curl|systemctl|journalctl|docker|'
                     r'kill|cc|cp|printf|export|git|dev/[\w./-]+|\./[\w.-]+|/usr/[\w./-]+)(?= |$)')
INLINE = re.compile(r'`([^`\n]+(?:\n[^`\n|]+)?)`')
INDENTED = re.compile(r'^ {4,}(\S.*)$', re.M)
EXAMPLES = re.compile(r'^\.SH EXAMPLES\n\.nf\n(.*?)^\.fi$', re.M | re.S)


def pages():
    docs = [p for p in (ROOT / 'docs').rglob('*.md') if 'decisions' not in p.parts]
    found = [ROOT / 'README.md', ROOT / 'CONTRIBUTING.md', *docs, *(ROOT / 'examples').glob('*/README.md')]
    return sorted(str(p.relative_to(ROOT)) for p in found)


def manuals():
    return sorted(str(p.relative_to(ROOT)) for p in (ROOT / 'docs/man').iterdir())


def strip(command):
    """Removes the prompt and the comment."""
    return re.sub(r'\s+#\s.*', '', command[2:] if command.startswith('$ ') else command).strip()


def is_command(text):
    words = text.split()
    return PROGRAM.match(text) is not None and len(words) > 1 and words[1] != '=' and not words[1].startswith('(')


def of_page(page):
    """[command] of a Markdown page outside of its fenced blocks."""
    text = FENCE.sub('', (ROOT / page).read_text())
    found = [strip(m[1]) for m in INDENTED.finditer(text) if m[1].startswith('$ ') or is_command(m[1])]
    inline = (' '.join(m[1].split()) for m in INLINE.finditer(INDENTED.sub('', text)))
    return found + [c for c in inline if is_command(c)]


def of_blocks(page):
    """[command] of the fenced blocks that neither support/pages.py executes, because of a mark, nor tests/package on a machine."""
    found = []
    if page == 'docs/install.md':
        return found
    for m in FENCE.finditer((ROOT / page).read_text()):
        if m['mark'] is None and m['language'] in ('', 'sh', 'console', 'bash', 'shell'):
            found += [strip(line) for line in m['text'].replace('\\\n', ' ').split('\n') if is_command(line)]
    return found


def of_manual(page):
    text = ''.join(EXAMPLES.findall((ROOT / page).read_text()))
    text = text.replace('\\-', '-').replace('\\(aq', "'")
    return [strip(line) for line in text.split('\n') if is_command(line)]


def all_commands():
    """{command: [page]}"""
    found = {}
    for page in pages():
        for command in of_page(page) + of_blocks(page):
            found.setdefault(command, []).append(page)
    for page in manuals():
        for command in of_manual(page):
            found.setdefault(command, []).append(page)
    return found
