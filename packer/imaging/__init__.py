"""Bytes → upright RGB uint8 → resized: what a picture is, and its pixels.

    heads/     `Head`: kind, size, orientation, colour, profile, read from the header alone
    native/    the optional C extensions
    decode     the pixels, upright, as RGB
    resize     the size they will have, and the resizing
    libraries  what is installed, what it decides, how to repair it

Which library decodes what is fixed here, never chosen by timing: JPEG by simplejpeg; WebP, AVIF and
BMPs with runs by OpenCV (every wheel of it carries libwebp); PNG, GIF, TIFF, other BMPs by Pillow.
Pillow also decodes JPEGs of unusual subsampling, which simplejpeg refuses, and resizes everything.
docs/pictures.md says what is read and what is refused.

PIL, cv2 and simplejpeg are imported where they are used, as the reader must not need all of them.
"""
