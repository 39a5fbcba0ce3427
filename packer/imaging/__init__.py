"""From a picture's bytes to upright, resized RGB pixels.

    heads/     `Head`: kind, size, orientation, colour, profile, read from the header alone
    native/    the optional C extensions
    geometry   the size of the stored picture
    plan       how one picture is decoded, converted, resized and kept, decided once
    decode     the pixels, upright, as RGB
    resize     the resizing
    libraries  installed imaging libraries: versions, warnings, how to repair them

Which library decodes what is fixed here, never chosen by timing: JPEG by simplejpeg; WebP, AVIF and
BMPs with runs by OpenCV (every wheel of it carries libwebp); PNG, GIF, TIFF, other BMPs by Pillow.
Pillow also decodes JPEGs of unusual subsampling, which simplejpeg refuses, and resizes everything.
docs/pictures.md lists which files are read and which are refused.

PIL, cv2 and simplejpeg are imported inside functions, because the reader must not need all of them.
"""
