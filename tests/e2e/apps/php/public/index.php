<?php
// SPDX-License-Identifier: Apache-2.0
// What each application of this directory does, for PHP's own server, which sends it every path that is not a file.
header('X-Pid: ' . getmypid());
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$scheme = empty($_SERVER['HTTPS']) ? 'http' : 'https';
$base = $scheme . '://' . $_SERVER['HTTP_HOST'];

function json($value)
{
    header('Content-Type: application/json');
    echo json_encode($value);
}

switch ($path) {
    case '/healthz':
    case '/hello':
        header('Content-Type: text/plain');
        echo "hello\n";
        break;
    case '/form':
        json($_POST);
        break;
    case '/json':
        json(json_decode(file_get_contents('php://input')));
        break;
    case '/enter':
        setcookie('session', 'a=b c', ['httponly' => true]);
        setcookie('theme', 'dark');
        header("Location: $base/cookies", true, 302);
        break;
    case '/leave':
        header('Location: /hello', true, 302);
        break;
    case '/cookies':
        json((object) $_COOKIE);
        break;
    case '/upload':
        $file = $_FILES['file']['tmp_name'] ?? 'php://input';
        $data = file_get_contents($file);
        json(['length' => strlen($data), 'sha256' => hash('sha256', $data)]);
        break;
    case '/stream':
        // A first piece at once, and a last one when the file `until` exists.
        header('Content-Type: text/plain');
        echo "first\n";
        // Debian's php.ini has a buffer for output, which flush() alone leaves as it is.
        while (ob_get_level() > 0) {
            ob_end_flush();
        }
        flush();
        do {
            usleep(10000);
            clearstatcache();
        } while (!file_exists($_GET['until']));
        echo "last\n";
        break;
    case '/environment':
        json(['address' => $_SERVER['REMOTE_ADDR'], 'scheme' => $scheme, 'host' => $_SERVER['HTTP_HOST'],
            'url' => $base . $_SERVER['REQUEST_URI'],
            'for' => $_SERVER['HTTP_X_FORWARDED_FOR'] ?? null, 'proto' => $_SERVER['HTTP_X_FORWARDED_PROTO'] ?? null]);
        break;
    case '/broken':
        ini_set('display_errors', '0');
        throw new RuntimeException('made for a test');
    default:
        http_response_code(404);
}
