# SPDX-License-Identifier: Apache-2.0
"""The newspapers' HTML. The application replaces "{cost}" by the cost of the page."""
from html import escape

STYLE = '''
:root{color-scheme:light}*{box-sizing:border-box}
body{margin:0;font:16px/1.55 system-ui,sans-serif;color:#222;background:var(--paper,#f6f5f2)}
main,header,footer{max-width:62rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:1.6rem;border-bottom:3px double var(--accent,#444);text-align:center}
h1{font-family:Georgia,serif;font-size:2.6rem;line-height:1.1;margin:.1em 0;color:var(--accent,#333)}
h1 a{color:inherit;text-decoration:none}h2{font-family:Georgia,serif;line-height:1.2}
header p{margin:.2rem 0 .8rem;font-style:italic;color:#666}
nav{padding:.45rem 0;border-top:1px solid #0002;font-size:.92rem}nav a{margin:0 .55rem;white-space:nowrap}
a{color:var(--accent,#246)}a:hover{opacity:.75}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(17rem,1fr));gap:1.2rem;margin:1.4rem 0}
.card{background:#fff;border-radius:.5rem;overflow:hidden;box-shadow:0 1px 4px #0002}
.card img{width:100%;height:8rem;object-fit:cover;display:block}.card div{padding:.7rem 1rem 1rem}
.card h2{font-size:1.15rem;margin:0 0 .35rem}.card h2 a{color:#222;text-decoration:none}
.card p{margin:0;font-size:.9rem;color:#555}small{color:#777}
article{background:#fff;border-radius:.5rem;padding:1.2rem 1.8rem;margin:1.4rem 0;box-shadow:0 1px 4px #0002}
article h2{font-size:2rem;margin:.2rem 0}.pictures{display:flex;gap:.6rem;margin:1rem 0}
.pictures figure{flex:1;margin:0}.pictures img{width:100%;height:9rem;object-fit:cover;border-radius:.3rem}
figcaption{font-size:.78rem;color:#777}blockquote{margin:.5rem 0;padding:.1rem 1rem;border-left:3px solid #0001}
.cost{position:sticky;bottom:0;margin-top:2rem;background:#222;color:#eee;text-align:center;padding:.5rem;
font-size:.88rem}.cost b{color:#fff}.cost .warm{color:#8fdc97}.cost .cold{color:#ffb86b}.cost a{color:#9cf}
table{border-collapse:collapse;margin:1.2rem 0;background:#fff;box-shadow:0 1px 4px #0002}
td,th{padding:.35rem .9rem;text-align:left;border-bottom:1px solid #0001}td:last-child{text-align:right;
font-variant-numeric:tabular-nums}.columns{columns:15rem;margin:1.5rem 0}.columns a{display:block;padding:.15rem 0}
'''


def cost(pid, loads, hits):
    """One line: the process that served the page, and the objects that it loaded."""
    state = 'warm' if loads == 0 else 'cold'
    return ('<div class="cost">served by pid <b>%d</b> with <b class="%s">%d database load%s</b> and %d cache hits'
            ' &middot; <a href="/_stats">this process</a></div>') % (pid, state, loads, '' if loads == 1 else 's', hits)


def page(title, body, style=''):
    return ('<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
            'content="width=device-width,initial-scale=1"><title>%s</title><style>%s%s</style></head>'
            '<body>%s{cost}</body></html>\n') % (escape(title), STYLE, style, body)


def newspaper(about, layout, body):
    sections = ''.join('<a href="/section/%d">%s</a>' % (n, escape(s)) for n, s in enumerate(about['sections']))
    head = '<header><h1><a href="/">%s</a></h1><p>%s</p><nav>%s</nav></header>' % (
        escape(about['title']), escape(about['motto']), sections)
    foot = '<footer><small>Editor: %s. %s</small></footer>' % (escape(about['editor']), escape(about['imprint']))
    style = ':root{--accent:%s;--paper:%s}' % (layout['accent'], layout['paper'])
    if layout['serif']:
        style += 'body{font-family:Georgia,serif}'
    return page(about['title'], '%s<main>%s</main>%s' % (head, body, foot), style)


def cards(teasers):
    return '<div class="grid">%s</div>' % ''.join(
        '<div class="card"><a href="/article/%d"><img alt="%s" src="%s"></a><div>'
        '<h2><a href="/article/%d">%s</a></h2><p>%s</p><small>%s, %s</small></div></div>' % (
            n, escape(picture['caption'], quote=True), picture['url'], n, escape(article['title']),
            escape(article['teaser']), escape(article['by']), article['date'])
        for n, article, picture in teasers)


def front(about, layout, teasers):
    return newspaper(about, layout, cards(teasers))


def section(about, layout, number, value, teasers):
    return newspaper(about, layout, '<h2>%s</h2><p>%s</p><small>Desk: %s</small>%s' % (
        escape(value['title']), escape(value['about']), escape(', '.join(value['desk'])), cards(teasers)))


def article(about, layout, value, its_section, pictures, teasers):
    figures = ''.join('<figure><img alt="" src="%s"><figcaption>%s <em>%s</em></figcaption></figure>' % (
        p['url'], escape(p['caption']), escape(p['credit'])) for p in pictures)
    comments = ''.join('<blockquote><b>%s</b> %s <small>%d likes</small></blockquote>' % (
        escape(by), escape(text), likes) for by, text, likes in value['comments'])
    return newspaper(about, layout, (
        '<article><small><a href="/section/%d">%s</a> &middot; %s &middot; %s &middot; %d words on %s</small>'
        '<h2>%s</h2><div class="pictures">%s</div>%s<h3>Comments</h3>%s</article><h3>Related</h3>%s') % (
            value['section'], escape(its_section['title']), escape(value['by']), value['date'], value['words'],
            escape(', '.join(value['keywords'])), escape(value['title']), figures, value['html'], comments,
            cards(teasers)))


def index(sites, port):
    """All newspapers. Browsers resolve every name below localhost to this machine."""
    where = '.localhost' + (':' + port if port.isdecimal() else '')
    links = ''.join('<a href="http://%s%s/">%s</a>' % (slug, where, escape(title))
                    for slug, (_, title) in sites.items())
    return page('Newspapers', '<header><h1>Newspapers</h1><p>%d of them, one database, a few processes</p></header>'
                '<main><div class="columns">%s</div></main>' % (len(sites), links))


def stats(values):
    rows = ''.join('<tr><th>%s</th><td>%s</td></tr>' % (escape(k.replace('_', ' ')), escape(str(v)))
                   for k, v in values.items() if k != 'busiest')
    busiest = ''.join('<tr><td>%s</td><td>%d</td></tr>' % (escape(slug), n) for slug, n in values['busiest'])
    return page('Process %d' % values['pid'],
                '<header><h1>Process %d</h1><p>one of those that serve the newspapers</p></header><main><table>%s'
                '</table><h2>Newspapers it serves most</h2><table>%s</table></main>' % (values['pid'], rows, busiest))
