/* The published examples (FIPS 180-4, NIST's short messages, RFC 4231), and lengths around a
 * block's end against a second way to the same hash. */
#include "base/sha256.h"
#include "test.h"

static const char *hash_hex(struct str bytes, char hex[SHA256_HEX_SIZE])
{
    unsigned char hash[SHA256_SIZE];

    sha256_of(bytes, hash);
    return sha256_hex(hash, hex);
}

static void knows_the_published_hashes(void **state)
{
    static const struct {
        const char *text, *hex;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmno"
         "pqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
        {"\xbd", "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b"},
    };
    char hex[SHA256_HEX_SIZE];

    (void)state;
    for (size_t i = 0; i < COUNTOF(known); i++) {
        assert_string_equal(hash_hex(str_from(known[i].text), hex), known[i].hex);
    }
}

static void a_million_letters_in_odd_pieces(void **state)
{
    char letters[997];
    struct sha256 h;
    unsigned char hash[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE];
    size_t left = 1000000;

    (void)state;
    memset(letters, 'a', sizeof(letters));
    sha256_init(&h);
    while (left > 0) {
        size_t n = left < sizeof(letters) ? left : sizeof(letters);

        sha256_add(&h, (struct str){letters, n});
        left -= n;
    }
    sha256_end(&h, hash);
    assert_string_equal(sha256_hex(hash, hex),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The lengths at which padding goes over into another block. */
static void pieces_of_any_length_give_the_same_hash(void **state)
{
    char bytes[200];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (char)(i * 7);
    }
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        unsigned char whole[SHA256_SIZE], pieces[SHA256_SIZE];
        struct sha256 h;

        sha256_of((struct str){bytes, len}, whole);
        sha256_init(&h);
        for (size_t i = 0; i < len; i++) {
            sha256_add(&h, (struct str){bytes + i, 1});
        }
        sha256_add(&h, STR_EMPTY);
        sha256_end(&h, pieces);
        assert_memory_equal(whole, pieces, SHA256_SIZE);
    }
}

static const char *mac_hex(struct str key, struct str bytes, char hex[SHA256_HEX_SIZE])
{
    struct hmac256 m;
    unsigned char mac[SHA256_SIZE];

    hmac256_init(&m, key);
    hmac256_add(&m, str_head(bytes, 3));
    hmac256_add(&m, str_skip(bytes, 3));
    hmac256_end(&m, mac);
    return sha256_hex(mac, hex);
}

static void knows_the_published_macs(void **state)
{
    char key[131], bytes[50], hex[SHA256_HEX_SIZE];

    (void)state;
    memset(key, 0x0b, 20);
    assert_string_equal(mac_hex((struct str){key, 20}, S("Hi There"), hex),
                        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_string_equal(mac_hex(S("Jefe"), S("what do ya want for nothing?"), hex),
                        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    memset(bytes, 0xdd, sizeof(bytes));
    assert_string_equal(mac_hex((struct str){key, 20}, (struct str){bytes, 50}, hex),
                        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    /* A key that is longer than a block is hashed first. */
    assert_string_equal(mac_hex((struct str){key, 131},
                                S("Test Using Larger Than Block-Size Key - Hash Key First"), hex),
                        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void compares_all_bytes(void **state)
{
    (void)state;
    assert_true(secret_eq("abcd", "abcd", 4));
    assert_true(secret_eq("abcd", "abcX", 3));
    assert_true(secret_eq("", "x", 0));
    assert_false(secret_eq("abcd", "abce", 4));
    assert_false(secret_eq("abcd", "Abcd", 4));
    assert_false(secret_eq("\x01", "\x81", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_the_published_hashes),
        cmocka_unit_test(a_million_letters_in_odd_pieces),
        cmocka_unit_test(pieces_of_any_length_give_the_same_hash),
        cmocka_unit_test(knows_the_published_macs),
        cmocka_unit_test(compares_all_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
