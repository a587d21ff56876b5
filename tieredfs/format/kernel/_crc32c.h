/* CRC-32C (Castagnoli): with the processor's own instruction where it has one, else with
 * tables, eight bytes at a time.
 *
 * The instruction has a latency of three cycles and a throughput of one per cycle, so
 * three streams run in parallel. A table then combines the CRCs of the streams.
 * Source: Mark Adler's crc32c.c describes the method; RFC 3720 B.4 the values.
 */
#ifndef TIEREDFS_CRC32C_H
#define TIEREDFS_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>
#define CRC32C_HARDWARE __attribute__((target("sse4.2")))
#define CRC32C_8(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#define CRC32C_1(crc, byte) _mm_crc32_u8((crc), (byte))
static int crc32c_has_hardware(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0;
}
#elif defined(_M_X64)
#include <intrin.h>
#include <nmmintrin.h>
#define CRC32C_HARDWARE
#define CRC32C_8(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#define CRC32C_1(crc, byte) _mm_crc32_u8((crc), (byte))
static int crc32c_has_hardware(void)
{
    int found[4];
    __cpuid(found, 1);
    return (found[2] >> 20) & 1;
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define CRC32C_HARDWARE
#define CRC32C_8(crc, word) __crc32cd((crc), (word))
#define CRC32C_1(crc, byte) __crc32cb((crc), (byte))
static int crc32c_has_hardware(void) { return 1; }
#elif defined(__aarch64__) && defined(__linux__) && defined(__GNUC__)
/* The code is compiled for plain ARMv8.0, so the instructions are encoded by hand. */
#include <sys/auxv.h>
#define CRC32C_HARDWARE
static inline uint32_t crc32c_arm_8(uint32_t crc, uint64_t word)
{
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
}
static inline uint32_t crc32c_arm_1(uint32_t crc, uint8_t byte)
{
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)byte));
    return crc;
}
#define CRC32C_8(crc, word) crc32c_arm_8((crc), (word))
#define CRC32C_1(crc, byte) crc32c_arm_1((crc), (byte))
static int crc32c_has_hardware(void) { return (getauxval(AT_HWCAP) >> 7) & 1; }
#else
static int crc32c_has_hardware(void) { return 0; }
#endif

#if defined(__GNUC__)
#define CRC32C_PREFETCH(at) __builtin_prefetch(at)
#else
#define CRC32C_PREFETCH(at) ((void)0)
#endif

#if defined(__GNUC__)
#define COUNT_BITS(bits) __builtin_popcountll(bits)
#else
static inline int COUNT_BITS(uint64_t bits)
{
    int count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
}
#endif

/* Size in bytes of the varint of some bits: a byte for each seven of them. */
#if defined(__GNUC__)
#define VARINT_SIZE(bits) ((70 - __builtin_clzll((uint64_t)(bits) | 1)) * 37 >> 8)
#else
static inline int VARINT_SIZE(uint64_t bits)
{
    int size = 1;
    while (bits >>= 7)
        size++;
    return size;
}
#endif

#define CRC32C_POLYNOMIAL 0x82f63b78u /* reflected */
#define CRC32C_LONG 896
#define CRC32C_SHORT 320
#define CRC32C_AHEAD 8192

static uint32_t crc32c_bytes[8][256]; /* [k][b]: byte b followed by k zero bytes */
static uint32_t crc32c_long[4][256];  /* [k][b]: CRC byte k moved past a long stream */
static uint32_t crc32c_short[4][256];
static int crc32c_in_hardware;

/* Tables: what b contributes as byte k of a CRC, after `zeros` zero bytes. */
static void crc32c_make_shift(uint32_t table[4][256], size_t zeros)
{
    uint32_t bits[32];
    int bit, k, b;
    size_t n;
    for (bit = 0; bit < 32; bit++) {
        uint32_t crc = (uint32_t)1 << bit;
        for (n = 0; n < zeros; n++)
            crc = crc32c_bytes[0][crc & 0xff] ^ (crc >> 8);
        bits[bit] = crc;
    }
    for (k = 0; k < 4; k++)
        for (b = 0; b < 256; b++) {
            uint32_t crc = 0;
            for (bit = 0; bit < 8; bit++)
                if (b >> bit & 1)
                    crc ^= bits[8 * k + bit];
            table[k][b] = crc;
        }
}

/* Call once, before anything else here. Returns whether the processor helps. */
static int crc32c_init(void)
{
    int k, b, bit;
    for (b = 0; b < 256; b++) {
        uint32_t crc = (uint32_t)b;
        for (bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ CRC32C_POLYNOMIAL : crc >> 1;
        crc32c_bytes[0][b] = crc;
    }
    for (k = 1; k < 8; k++)
        for (b = 0; b < 256; b++) {
            uint32_t crc = crc32c_bytes[k - 1][b];
            crc32c_bytes[k][b] = crc32c_bytes[0][crc & 0xff] ^ (crc >> 8);
        }
    crc32c_make_shift(crc32c_long, CRC32C_LONG);
    crc32c_make_shift(crc32c_short, CRC32C_SHORT);
    crc32c_in_hardware = crc32c_has_hardware();
    return crc32c_in_hardware;
}

static uint32_t crc32c_by_table(uint32_t crc, const uint8_t *at, size_t size)
{
    crc = ~crc;
    for (; size >= 8; at += 8, size -= 8) {
        crc ^= (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16
            | (uint32_t)at[3] << 24;
        crc = crc32c_bytes[7][crc & 0xff] ^ crc32c_bytes[6][crc >> 8 & 0xff]
            ^ crc32c_bytes[5][crc >> 16 & 0xff] ^ crc32c_bytes[4][crc >> 24]
            ^ crc32c_bytes[3][at[4]] ^ crc32c_bytes[2][at[5]]
            ^ crc32c_bytes[1][at[6]] ^ crc32c_bytes[0][at[7]];
    }
    for (; size; at++, size--)
        crc = crc32c_bytes[0][(crc ^ *at) & 0xff] ^ (crc >> 8);
    return ~crc;
}

#ifdef CRC32C_HARDWARE
static inline uint32_t crc32c_shift(const uint32_t table[4][256], uint32_t crc)
{
    return table[0][crc & 0xff] ^ table[1][crc >> 8 & 0xff]
        ^ table[2][crc >> 16 & 0xff] ^ table[3][crc >> 24];
}

static inline uint64_t crc32c_word(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

/* Three streams of `part` bytes each, as long as enough bytes are left. The hardware does
 * not predict the next positions of the streams, so a cache line of each is prefetched:
 * after the end of a batch the next one begins. A prefetch past the end never faults. */
#define CRC32C_STREAMS(part, table)                                        \
    while (size >= 3 * (part)) {                                           \
        uint32_t second = 0, third = 0;                                    \
        const uint8_t *end = at + (part);                                  \
        while (at < end) {                                                 \
            const uint8_t *line = at + 64;                                 \
            CRC32C_PREFETCH(at + CRC32C_AHEAD);                            \
            CRC32C_PREFETCH(at + CRC32C_AHEAD + (part));                   \
            CRC32C_PREFETCH(at + CRC32C_AHEAD + 2 * (part));               \
            for (; at < line; at += 8) {                                   \
                crc = CRC32C_8(crc, crc32c_word(at));                      \
                second = CRC32C_8(second, crc32c_word(at + (part)));       \
                third = CRC32C_8(third, crc32c_word(at + 2 * (part)));     \
            }                                                              \
        }                                                                  \
        crc = crc32c_shift(table, crc) ^ second;                           \
        crc = crc32c_shift(table, crc) ^ third;                            \
        at += 2 * (part);                                                  \
        size -= 3 * (part);                                                \
    }

CRC32C_HARDWARE
static uint32_t crc32c_by_hardware(uint32_t crc, const uint8_t *at, size_t size)
{
    crc = ~crc;
    CRC32C_STREAMS(CRC32C_LONG, crc32c_long)
    CRC32C_STREAMS(CRC32C_SHORT, crc32c_short)
    for (; size >= 8; at += 8, size -= 8)
        crc = CRC32C_8(crc, crc32c_word(at));
    for (; size; at++, size--)
        crc = CRC32C_1(crc, *at);
    return ~crc;
}
#endif

/* Extend a CRC by some bytes; begin with 0. */
static uint32_t crc32c_extend(uint32_t crc, const uint8_t *at, size_t size)
{
#ifdef CRC32C_HARDWARE
    if (crc32c_in_hardware)
        return crc32c_by_hardware(crc, at, size);
#endif
    return crc32c_by_table(crc, at, size);
}

#endif
