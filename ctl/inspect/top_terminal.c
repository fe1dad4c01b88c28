/* SPDX-License-Identifier: Apache-2.0
 *
 * ANSI sequences that every terminal of today knows; no library. Signals are handled by what is
 * safe in a handler: tcsetattr, write, flags. The few variables here are theirs: a handler has
 * nowhere else to look.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "ctl/inspect/top.h"

static const char enter_text[] = "\033[?1049h\033[?25l\033[2J"; /* alternate screen, no cursor */
static const char leave_text[] = "\033[0m\033[?25h\033[?1049l";

static struct termios before;
static volatile sig_atomic_t is_open, ending, resized;

static void put(const char *text, size_t len)
{
    while (len != 0) {
        ssize_t n = write(STDOUT_FILENO, text, len);

        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
            (void)poll(&p, 1, 1000);
        } else if (n < 0 && errno != EINTR) {
            return;
        }
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
}

static void enter(void)
{
    struct termios raw = before;

    raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR | IGNCR);
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: ^C, ^Z, ^\ */
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    put(enter_text, sizeof(enter_text) - 1);
}

static void leave(void)
{
    put(leave_text, sizeof(leave_text) - 1);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
}

/* ---- signals ---- */

static void on_ending(int signal)
{
    (void)signal;
    ending = 1;
}

static void on_resize(int signal)
{
    (void)signal;
    resized = 1;
}

/* An error, or being stopped: first the terminal as it was, then what would have been anyway. */
static void on_leaving(int number)
{
    int saved = errno;
    sigset_t one;

    if (is_open)
        leave();
    (void)signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, &one, NULL);
    /* Reached only when the process continues after a stop. */
    struct sigaction again = {.sa_handler = on_leaving};
    (void)sigaction(number, &again, NULL);
    if (is_open)
        enter();
    resized = 1;
    errno = saved;
}

static void watch(int number, void (*handler)(int signal))
{
    struct sigaction a = {.sa_handler = handler};

    sigemptyset(&a.sa_mask);
    (void)sigaction(number, &a, NULL);
}

enum err top_terminal_open(void)
{
    static const int endings[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    static const int errors[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTSTP};

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0)
        return ERR_UNSUPPORTED;
    for (size_t i = 0; i < ARRAY_LEN(endings); ++i)
        watch(endings[i], on_ending);
    for (size_t i = 0; i < ARRAY_LEN(errors); ++i)
        watch(errors[i], on_leaving);
    watch(SIGWINCH, on_resize);
    watch(SIGPIPE, SIG_IGN);
    is_open = 1;
    enter();
    return ERR_OK;
}

void top_terminal_close(void)
{
    if (!is_open)
        return;
    is_open = 0;
    leave();
}

void top_terminal_size(unsigned *rows, unsigned *columns)
{
    enum { ROWS = 24, COLUMNS = 80, SIZE_MAX_SANE = 1000 };
    struct winsize w;

    *rows = ROWS;
    *columns = COLUMNS;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_row == 0 || w.ws_col == 0)
        return;
    *rows = w.ws_row < SIZE_MAX_SANE ? w.ws_row : SIZE_MAX_SANE;
    *columns = w.ws_col < SIZE_MAX_SANE ? w.ws_col : SIZE_MAX_SANE;
}

/* ---- keys ---- */

static int read_byte(int wait_ms)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned char c;

    if (poll(&p, 1, wait_ms) <= 0)
        return 0;
    ssize_t n = read(STDIN_FILENO, &c, 1);
    if (n == 1)
        return c;
    /* A terminal that has gone reads as its end for ever. */
    return n == 0 || errno == EINTR || errno == EAGAIN ? ((p.revents & POLLHUP) ? -1 : 0) : -1;
}

/* What follows an escape: "[A", "[5~". */
static int read_sequence(void)
{
    enum { NEXT_MS = 50 };
    int first = read_byte(NEXT_MS);
    int key = first == '[' || first == 'O' ? read_byte(NEXT_MS) : 0;

    if (key == '5' || key == '6')
        return read_byte(NEXT_MS) == '~' ? (key == '5' ? TOP_PAGE_UP : TOP_PAGE_DOWN) : 0;
    switch (key) {
    case 'A':
        return TOP_UP;
    case 'B':
        return TOP_DOWN;
    case 'C':
        return TOP_RIGHT;
    case 'D':
        return TOP_LEFT;
    default:
        return 0;
    }
}

int top_terminal_key(unsigned ms)
{
    enum { ESCAPE = 27 };

    if (ending)
        return -1;
    if (resized) {
        resized = 0;
        put("\033[2J", strlen("\033[2J"));
        return 0;
    }
    int key = read_byte((int)ms);
    return ending ? -1 : key == ESCAPE ? read_sequence() : key;
}

void top_terminal_show(struct slice screen)
{
    put("\033[H", strlen("\033[H"));
    put(screen.p, screen.len);
}
