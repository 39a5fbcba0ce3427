"""Bytes → upright RGB uint8 → resized: what a picture is, and its pixels.

    sniff      what kind of file the bytes are
    probe      `Head`: size, orientation, colour, profile, read from the header alone
    decode     the pixels, upright, as RGB
    resize     the size they will have, and the resizing
    libraries  what is installed, what it decides, how to repair it

Which library decodes what is fixed here, never chosen by timing: JPEG by simplejpeg, WebP by
OpenCV (every wheel of it carries libwebp), PNG, BMP, GIF and TIFF by Pillow. Pillow also gives the
second opinion where a stricter decoder complains, and resizes everything.

PIL, cv2 and simplejpeg are imported where they are used, as the reader must not need all of them.
"""
