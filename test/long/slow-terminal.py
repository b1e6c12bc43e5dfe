# A terminal behind a slow line: runs a program on a pseudo terminal and reads so many bytes a second from it. Types a key every
# second and prints, as JSON, how many milliseconds the key took until the line brought its echo.
#
#   slow-terminal.py <bytes a second> <seconds> <program> [word …]
import fcntl, json, os, pty, select, struct, sys, termios, time

rate, seconds, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
child, master = pty.fork()
if child == 0:
    os.execvp(command[0], command)
fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))

STEP = 0.01
KEYS = 'abcdefghijklmnopqrstuvwxyz'
start = time.monotonic()
seen, typed, asked, waits, missed = b'', '', None, [], 0
next_key = 0.0
while time.monotonic() - start < seconds:
    tick = time.monotonic()
    if select.select([master], [], [], 0)[0]:
        seen = (seen + os.read(master, max(1, int(rate * STEP))))[-65536:]
    now = time.monotonic()
    # The screen is live, and the first frames have taught it how slow the line is.
    live = b'LIVE' in seen or typed != '' or next_key > 0
    if live and next_key == 0.0:
        next_key = now + 12
    if asked is not None and ('> ' in seen.decode('utf8', 'replace')) and typed.encode() in seen[mark:]:
        waits.append(round((now - asked) * 1000))
        asked = None
    if asked is not None and now - asked > 10:
        missed, asked = missed + 1, None
    if asked is None and next_key > 0 and now >= next_key:
        typed = (typed + KEYS[len(typed) % 26])[-200:]
        seen, mark, asked = b'', 0, now
        os.write(master, typed[-1].encode())
        next_key = now + 1
    time.sleep(max(0, STEP - (time.monotonic() - tick)))
os.write(master, b'\x1d')
deadline = time.monotonic() + 30
while time.monotonic() < deadline:
    try:
        if not os.read(master, 65536):
            break
    except OSError:
        break
print(json.dumps({'waits': waits, 'missed': missed}))
